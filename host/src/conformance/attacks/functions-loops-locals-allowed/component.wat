;; It tries to have 2,000 locals kept through sixty loops in one another.
(component
  (core module $m
    (func (export "run"))
    (func $bomb (param $p i32) (local @values@)
     @open@ @uses@ @close@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
