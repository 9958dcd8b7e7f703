;; It tries to be run with memories of 64-bit addresses.
(component
  (core module $m
    (func (export "run"))
    (memory i64 1))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
