;; It tries to be run with functions of components whose values the engine collects.
(component
  (core module $m (func (export "run")))
  (core instance $i (instantiate $m))
  (core type $t (func))
  (func (export "run") (canon lift (core func $i "run") gc)))
