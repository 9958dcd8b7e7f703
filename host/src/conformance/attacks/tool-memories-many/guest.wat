;; It tries to have sixty memories.
(memory $memory (export "memory") 64)
@memories@
