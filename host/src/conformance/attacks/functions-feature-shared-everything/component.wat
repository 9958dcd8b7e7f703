;; It tries to be run with functions that threads share.
(component
  (core module $m
    (func (export "run"))
    (type (shared (func (param i64)))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
