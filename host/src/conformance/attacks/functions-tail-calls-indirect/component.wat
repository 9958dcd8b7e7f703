;; It tries to have two functions call each other for ever through a table, without a stack that grows.
(component
  (core module $m
    (type $t (func))
    (table funcref (elem $run $other))
    (func $run (export "run") (return_call_indirect (type $t) (i32.const 1)))
    (func $other (return_call_indirect (type $t) (i32.const 0))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
