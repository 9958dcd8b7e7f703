;; It tries to have who watches see another reply than the one that counts.
(import "shelly:plugin/sink@0.1.0" "emit"
  (func $emit (param i32 i64 i64 i64 i64)))
(data (i32.const 0x500) "conformance:streamed")
(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32)
  (call $emit (i32.const 0) (i64.const 0x500) (i64.const 20) (i64.const 0) (i64.const 0))
  (i32.const 0x340))
