;; It tries to be run with references to functions of a type.
(component
  (core module $m
    (func (export "run"))
    (type $t (func))
    (func (param (ref $t)) (call_ref $t (local.get 0))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
