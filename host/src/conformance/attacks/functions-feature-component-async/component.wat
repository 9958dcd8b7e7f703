;; It tries to be run with the async ABI of components.
(component
  (core module $m (func (export "run") (result i32) i32.const 0) (func (export "back") (param i32 i32 i32) (result i32) i32.const 0))
  (core instance $i (instantiate $m))
  (func (export "run") async (canon lift (core func $i "run") async (callback (core func $i "back")))))
