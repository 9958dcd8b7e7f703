;; It tries to have 2.5 GiB of memory from the beginning.
(memory $memory (export "memory") 40000)
