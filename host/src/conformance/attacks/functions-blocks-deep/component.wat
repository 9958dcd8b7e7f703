;; It tries to have 100,000 blocks in one another compiled.
(component
  (core module $m
    (func (export "run"))
    (func $bomb @open@ @close@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
