;; It tries to call itself for ever without a stack that grows.
(component
  (core module $m (func $run (export "run") (return_call $run)))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
