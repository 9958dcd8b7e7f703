;; It tries to send a piece of 65,537 bytes.
(import "shelly:plugin/sink@0.1.0" "emit"
  (func $emit (param i32 i64 i64 i64 i64)))
(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32)
  (call $emit (i32.const 0) (i64.const 0x300000) (i64.const 65537) (i64.const 0) (i64.const 0))
  (i32.const 0x340))
