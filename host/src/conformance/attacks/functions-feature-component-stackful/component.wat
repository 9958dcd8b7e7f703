;; It tries to be run with functions of components that wait on a stack of their own.
(component
  (core module $m (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") async (canon lift (core func $i "run") async)))
