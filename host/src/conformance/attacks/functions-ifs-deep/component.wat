;; It tries to have 50,000 branches in one another compiled.
(component
  (core module $m
    (func (export "run"))
    (func $bomb (param i32) @open@ @close@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
