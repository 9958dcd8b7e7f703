;; It tries to have 50,000 names of exports kept.
(component
  (core module $m
    (func (export "run"))
    @exports@)
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
