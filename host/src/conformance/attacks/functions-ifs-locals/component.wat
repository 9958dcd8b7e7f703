;; It tries to have 9,000 locals kept past 100,000 branches, one after the other.
(component
  (core module $m
    (func (export "run"))
    (func $bomb (param $p i32) (local @values@)
     @sets@ @ifs@ @uses@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
