;; It tries to have 50,000 calls with a thousand arguments compiled.
(component
  (core module $m
    (func (export "run"))
    (type $w (func (param @values@)))
    (func $g (type $w))
    (func $bomb unreachable @calls@ unreachable))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
