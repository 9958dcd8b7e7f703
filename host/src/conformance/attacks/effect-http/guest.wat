;; It tries to send what it sees of a run to a server that it was granted.
(import "shelly:plugin/http@0.1.0" "send"
  (func $send (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
(data (i32.const 0x400) "GET")
(data (i32.const 0x410) "https://conformance.invalid/")
(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32)
  (call $send (i32.const 0x400) (i32.const 3) (i32.const 0x410) (i32.const 28) (i32.const 0) (i32.const 0) (i32.const 0)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 32))
  ;; All but `denied`.
  (if (i32.ne (i32.load8_u (i32.const 32)) (i32.const 1)) (then unreachable))
  (if (i32.ne (i32.load8_u (i32.const 40)) (i32.const 1)) (then unreachable))
  (i32.const 0x280))
