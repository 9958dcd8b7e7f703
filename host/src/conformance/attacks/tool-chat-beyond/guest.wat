;; It tries to read beyond the end of a conversation, and backwards.
(import "shelly:plugin/chat@0.1.0" "read"
  (func $read (param i32 i32 i32)))
(import "shelly:plugin/chat@0.1.0" "entries"
  (func $entries (param i32 i32 i32)))
(import "shelly:plugin/chat@0.1.0" "find"
  (func $find (param i64 i32)))
(import "shelly:plugin/chat@0.1.0" "tools"
  (func $tools (param i32)))
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $read (i32.const -16) (i32.const -1) (i32.const 16))
  (if (i32.load (i32.const 20)) (then (return (call $escaped))))
  (call $read (i32.const 3) (i32.const 1) (i32.const 16))
  (if (i32.load (i32.const 20)) (then (return (call $escaped))))
  (call $entries (i32.const -1) (i32.const 0) (i32.const 16))
  (if (i32.load (i32.const 20)) (then (return (call $escaped))))
  (call $find (i64.const -1) (i32.const 16))
  (if (i32.load8_u (i32.const 16)) (then (return (call $escaped))))
  (call $tools (i32.const 16))
  (call $ok))
