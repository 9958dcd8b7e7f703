;; It tries to have a type measured that holds the one before it twice, forty times.
(component
  (type $t0 (tuple u8 u8))
  @types@
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
