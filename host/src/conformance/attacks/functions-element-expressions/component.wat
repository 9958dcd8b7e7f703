;; It tries to have 200,000 expressions of elements kept.
(component
  (core module $m
    (func (export "run"))
    (table 1 funcref)
    (elem funcref @items@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
