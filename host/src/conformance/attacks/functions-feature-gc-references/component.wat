;; It tries to be run with references that the engine collects.
(component
  (core module $m
    (func (export "run"))
    (func (param anyref)))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
