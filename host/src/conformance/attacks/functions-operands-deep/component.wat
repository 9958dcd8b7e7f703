;; It tries to have 150,000 values kept on the stack of one function.
(component
  (core module $m
    (func (export "run"))
    (func $bomb @push@ @pop@))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
