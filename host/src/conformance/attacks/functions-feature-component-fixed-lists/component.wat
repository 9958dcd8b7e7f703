;; It tries to be run with lists of a fixed length.
(component
  (type (list u8 4))
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
