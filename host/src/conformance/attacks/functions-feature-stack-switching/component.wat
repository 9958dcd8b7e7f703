;; It tries to be run with stacks that are switched.
(component
  (core module $m
    (func (export "run"))
    (type $f (func))
    (type (cont $f)))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
