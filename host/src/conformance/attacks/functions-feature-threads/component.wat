;; It tries to be run with memories that threads share.
(component
  (core module $m
    (func (export "run"))
    (memory 1 1 shared))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
