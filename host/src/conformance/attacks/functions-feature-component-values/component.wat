;; It tries to be run with values of components.
(component
  (import "v" (value $v u8))
  (export "w" (value $v))
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
