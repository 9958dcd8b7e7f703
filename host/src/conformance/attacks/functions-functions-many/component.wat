;; It tries to have 100,001 functions compiled.
(component
  (core module $m
    (func (export "run"))
    @functions@)
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
