;; It tries to have 2,000 loops of a thousand parameters and results compiled.
(component
  (core module $m
    (func (export "run"))
    (type $w (func (param @values@) (result @values@)))
    (func $bomb unreachable @open@ @close@ unreachable))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
