;; It tries to be run with contexts of errors of components.
(component
  (core module $l (memory (export "m") 1))
  (core instance $l (instantiate $l))
  (core func (canon error-context.drop))
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
