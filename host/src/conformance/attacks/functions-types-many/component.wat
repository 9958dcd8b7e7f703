;; It tries to have 100,000 types of functions compared with one another.
(component
  (core module $m
    (func (export "run"))
    @types@)
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
