;; It tries to have a table of 400,000 branches compiled, each to one of a thousand blocks.
(component
  (core module $m
    (func (export "run"))
    (func $bomb (param i32) @open@ local.get 0 br_table @targets@ 0 @close@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
