;; It tries to be run with tables of 64-bit indices.
(component
  (core module $m
    (func (export "run"))
    (table i64 1 funcref))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
