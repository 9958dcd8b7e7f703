;; It tries to be run with calls that take the place of their caller.
(component
  (core module $m
    (func (export "run"))
    (func $f return_call $f))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
