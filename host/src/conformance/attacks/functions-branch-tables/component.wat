;; It tries to have 2,000 tables of a hundred branches each compiled.
(component
  (core module $m
    (func (export "run"))
    (func $bomb (param i32) @open@ @tables@ @close@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
