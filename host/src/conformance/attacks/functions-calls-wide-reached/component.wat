;; It tries to have 2,100 calls with 128 arguments compiled that are reached.
(component
  (core module $m
    (func (export "run"))
    (type $w (func (param @values@)))
    (func $g (type $w))
    (func $bomb @calls@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
