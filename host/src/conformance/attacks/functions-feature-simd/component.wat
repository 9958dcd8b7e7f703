;; It tries to be run with vectors.
(component
  (core module $m
    (func (export "run"))
    (func (drop (i32x4.add (v128.const i32x4 1 2 3 4) (v128.const i32x4 1 2 3 4)))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
