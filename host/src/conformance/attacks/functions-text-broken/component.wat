;; It tries to give back a text that is not UTF-8.
(component
  (core module $m
    (memory (export "memory") 1)
    (data (i32.const 16) "\20\00\00\00\02\00\00\00")
    (data (i32.const 32) "\ff\fe")
    (func (export "run") (result i32) (i32.const 16)))
  (core instance $i (instantiate $m))
  (func (export "run") (result string) (canon lift (core func $i "run") (memory (core memory $i "memory")))))
