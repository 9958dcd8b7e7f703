;; It tries to be run with maps of components.
(component
  (type (map u8 u8))
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
