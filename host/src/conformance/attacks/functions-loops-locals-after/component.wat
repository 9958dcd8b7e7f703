;; It tries to have 3,000 locals kept past 10,000 loops, one after the other.
(component
  (core module $m
    (func (export "run"))
    (func $bomb (param $p i32) (local @values@)
     @sets@ @loops@ @uses@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
