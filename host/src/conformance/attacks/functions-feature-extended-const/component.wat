;; It tries to be run with arithmetic in constants.
(component
  (core module $m
    (func (export "run"))
    (global i32 (i32.add (i32.const 1) (i32.const 2))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
