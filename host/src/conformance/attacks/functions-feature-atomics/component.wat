;; It tries to be run with atomic operations.
(component
  (core module $m
    (func (export "run"))
    (memory 1)
    (func (drop (i32.atomic.load (i32.const 0)))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
