;; It tries to have a million million instances made that hold no code, by forty components that each make two of the one before.
(component
  (component $c0 (instance))
  @more@
  (instance (instantiate $c40))
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
