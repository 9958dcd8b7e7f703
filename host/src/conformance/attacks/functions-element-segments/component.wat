;; It tries to have 50,000 segments of elements laid into a table.
(component
  (core module $m
    (func (export "run"))
    (table 1 funcref)
    @segments@)
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
