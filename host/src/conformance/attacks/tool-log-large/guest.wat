;; It tries to make the host copy an entry of 33 MiB.
(import "shelly:plugin/log@0.1.0" "write"
  (func $log (param i32 i32 i32)))
(memory $memory (export "memory") 600)
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $log (i32.const 1) (i32.const 0x300000) (i32.const 0x2000001))
  (call $ok))
