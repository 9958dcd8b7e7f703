;; It tries to make counting overflow by pieces.
(import "shelly:plugin/sink@0.1.0" "emit"
  (func $emit (param i32 i64 i64 i64 i64)))
(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32)
  (call $emit (i32.const 3) (i64.const -1) (i64.const -1) (i64.const -1) (i64.const -1))
  (call $emit (i32.const 3) (i64.const -1) (i64.const -1) (i64.const -1) (i64.const -1))
  (i32.const 0x340))
