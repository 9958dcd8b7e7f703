;; It tries to be run with threads of components.
(component
  (core func (canon thread.index))
  (core module $m
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
