;; It tries to be run with arithmetic of 128 bits.
(component
  (core module $m
    (func (export "run"))
    (func (param i64) (i64.add128 (local.get 0) (local.get 0) (local.get 0) (local.get 0)) drop drop))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
