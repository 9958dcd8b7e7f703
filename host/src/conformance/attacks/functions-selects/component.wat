;; It tries to have 50,000 choices that hang on each other compiled.
(component
  (core module $m
    (func (export "run"))
    (func $bomb (param i32) (result i32) local.get 0 @code@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
