;; It tries to be run with descriptions of types at run time.
(component
  (core module $m
    (func (export "run"))
    (rec (type $a (descriptor $b) (struct)) (type $b (describes $a) (struct))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
