;; It tries to have a megabyte of constants of vectors compiled.
(component
  (core module $m
    (func (export "run"))
    (func $bomb @code@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
