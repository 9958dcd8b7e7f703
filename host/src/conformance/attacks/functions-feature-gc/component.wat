;; It tries to be run with structures that the engine collects.
(component
  (core module $m
    (func (export "run"))
    (type (struct (field i32))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
