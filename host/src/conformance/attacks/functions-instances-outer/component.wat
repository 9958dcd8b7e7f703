;; It tries to have instances multiplied by components that reach out of two others for what they instantiate.
(component
  (component $c0 (core module $e) (core instance (instantiate $e)))
  @more@
  (instance (instantiate $c30))
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
