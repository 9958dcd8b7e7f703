;; It tries to see a clock that its agent has and that whoever started the agent may not pass on.
(import "shelly:plugin/clock@0.1.0" "now"
  (func $now (result i64)))
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (drop (call $now))
  (call $escaped))
