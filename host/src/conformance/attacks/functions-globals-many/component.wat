;; It tries to have 50,000 globals made.
(component
  (core module $m
    (func (export "run"))
    @globals@)
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
