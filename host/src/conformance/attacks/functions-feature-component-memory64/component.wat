;; It tries to be run with components whose memories have 64-bit addresses.
(component
  (core module $m (memory (export "memory") i64 1) (func (export "run") (param i64 i64))
    (func (export "realloc") (param i64 i64 i64 i64) (result i64) i64.const 0))
  (core instance $i (instantiate $m))
  (func (export "run") (param "text" string)
    (canon lift (core func $i "run") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))
