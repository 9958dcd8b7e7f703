;; It tries to be run with streams and futures of components.
(component
  (type (stream u8))
  (type (future u8))
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
