;; It tries to have instances multiplied by components that an instance exports.
(component
  (component $outer (component $c (core module $e) (core instance (instantiate $e))) (export "c" (component $c)))
  (instance $o (instantiate $outer))
  (alias export $o "c" (component $found))
  @more@
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
