;; It tries to have 50,000 calls with 128 arguments and results compiled.
(component
  (core module $m
    (func (export "run"))
    (type $w (func (param @values@) (result @values@)))
    (func $g (type $w) unreachable)
    (func $bomb unreachable @calls@ unreachable))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
