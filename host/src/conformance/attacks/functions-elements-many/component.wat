;; It tries to have a million and one elements laid into a table by one segment.
(component
  (core module $m
    (func (export "run"))
    (table 1 funcref)
    (elem func @items@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
