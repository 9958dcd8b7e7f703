;; It tries to be run with several memories in one module.
(component
  (core module $m
    (func (export "run"))
    (memory 1)
    (memory 1))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
