;; It tries to be run with exceptions of the older form.
(component
  (core module $m
    (func (export "run"))
    (func try catch_all end))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
