;; It tries to break whoever follows 10,000 types into each other.
(component
  (type $t0 (list u8))
  @types@
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
