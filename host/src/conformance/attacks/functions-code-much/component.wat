;; It tries to have more than a megabyte of valid code compiled, in 1,000 functions.
(component
  (core module $m
    (func (export "run"))
    @functions@)
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
