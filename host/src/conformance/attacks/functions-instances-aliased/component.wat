;; It tries to have a thousand million instances made, by thirty components that each make two of the one before.
(component
  (component $c0 (core module $e) (core instance (instantiate $e)))
  @more@
  (instance (instantiate $c30))
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
