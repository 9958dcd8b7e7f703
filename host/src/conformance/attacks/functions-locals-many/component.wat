;; It tries to have a function of 49,000 locals compiled.
(component
  (core module $m
    (func (export "run"))
    (func $bomb (local @values@)))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
