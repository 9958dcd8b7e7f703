;; It tries to hand over a list that is longer than its memory.
(component
  (core module $m
    (memory (export "memory") 1)
    (data (i32.const 16) "\00\01\00\00\ff\ff\ff\0f")
    (func (export "run") (result i32) (i32.const 16)))
  (core instance $i (instantiate $m))
  (func (export "run") (result (list u64)) (canon lift (core func $i "run") (memory (core memory $i "memory")))))
