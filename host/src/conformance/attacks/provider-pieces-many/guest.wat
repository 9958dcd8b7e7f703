;; It tries to send so many small pieces of a reply that who watches them is flooded.
(import "shelly:plugin/sink@0.1.0" "emit"
  (func $emit (param i32 i64 i64 i64 i64)))
(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32)
  (loop $for-ever
    (call $emit (i32.const 0) (i64.const 0x100) (i64.const 0) (i64.const 0) (i64.const 0))
    (br $for-ever))
  (unreachable))
