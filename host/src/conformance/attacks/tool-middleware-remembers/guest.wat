;; It tries to find after a call what it left before it.
(import "shelly:plugin/log@0.1.0" "write"
  (func $log (param i32 i32 i32)))
(global $called (mut i32) (i32.const 0))
(func (export "shelly:plugin/tool-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (global.set $called (i32.const 1))
  (i32.const 0x280))
(func (export "shelly:plugin/tool-middleware@0.1.0#after") (param i32) (result i32)
  (if (global.get $called)
    (then (call $log (i32.const 3) (i32.const 0x110) (i32.const 19))))
  (i32.const 0x280))
