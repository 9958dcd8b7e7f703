;; It tries to export functions of other types than the contract has.
(component
  (core module $m (func (export "f") (result i32) (i32.const 0)))
  (core instance $i (instantiate $m))
  (func $f (result u32) (canon lift (core func $i "f")))
  (instance $tool (export "specs" (func $f)) (export "call" (func $f)))
  (export "shelly:plugin/tool@0.1.0" (instance $tool)))
