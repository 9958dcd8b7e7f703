;; It tries to be run with pages of a memory that are given back.
(component
  (core module $m
    (func (export "run"))
    (memory 1)
    (func (memory.discard (i32.const 0) (i32.const 0))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
