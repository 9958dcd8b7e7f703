;; It tries to have 99,000 empty components read and validated.
(component
  @components@
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
