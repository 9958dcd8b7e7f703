;; It tries to be run with exceptions.
(component
  (core module $m
    (func (export "run"))
    (tag))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
