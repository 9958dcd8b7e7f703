;; It tries never to return, with every moment spent in the host.
(import "shelly:plugin/clock@0.1.0" "now"
  (func $now (result i64)))
(func (export "shelly:plugin/tool-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (loop $for-ever (drop (call $now)) (br $for-ever))
  (unreachable))
