;; It tries to have 40,000 checks of a memory compiled in one function.
(component
  (core module $m
    (func (export "run"))
    (memory 1)
    (func $bomb (param i32) @code@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
