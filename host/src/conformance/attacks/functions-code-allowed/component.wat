;; It tries to have a function of almost a megabyte compiled.
(component
  (core module $m
    (func (export "run"))
    (func $bomb (param i64) (result i64) local.get 0 @code@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
