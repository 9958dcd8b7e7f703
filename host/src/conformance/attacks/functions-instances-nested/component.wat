;; It tries to have millions of instances made by components in one another, three by each.
(component
  @open@(core module $e) (core instance (instantiate $e))@close@
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
