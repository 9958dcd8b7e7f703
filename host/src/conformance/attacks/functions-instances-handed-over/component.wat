;; It tries to have instances multiplied by components that take as an import what they instantiate.
(component
  (component $twice (import "c" (component $c)) (instance (instantiate $c)) (instance (instantiate $c)))
  (component $e (core module $m) (core instance (instantiate $m)))
  (instance (instantiate $twice (with "c" (component $e))))
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
