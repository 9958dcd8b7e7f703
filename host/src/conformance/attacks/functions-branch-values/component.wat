;; It tries to have a table of 100,000 branches compiled that carry 128 values each.
(component
  (core module $m
    (func (export "run"))
    (type $w (func (param @values@) (result @values@)))
    (func $bomb unreachable block (type $w) unreachable br_table @targets@ 0 end unreachable))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
