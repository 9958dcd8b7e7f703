;; It tries to have 1,000 tables of a million elements each.
(component
  (core module $m
    (func (export "run"))
    @tables@)
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
