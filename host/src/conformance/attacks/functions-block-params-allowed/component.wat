;; It tries to have blocks of 128 parameters and results compiled, 8,000 of them.
(component
  (core module $m
    (func (export "run"))
    (type $w (func (param @values@) (result @values@)))
    (func $bomb unreachable @blocks@ unreachable))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
