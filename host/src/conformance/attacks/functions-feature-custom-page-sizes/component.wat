;; It tries to be run with pages of one byte.
(component
  (core module $m
    (func (export "run"))
    (memory 1 (pagesize 1)))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
