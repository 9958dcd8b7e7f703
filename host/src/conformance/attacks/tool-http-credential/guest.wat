;; It tries to use a credential that it was not granted.
(import "shelly:plugin/http@0.1.0" "credentials" (func $credentials (param i32)))
(import "shelly:plugin/http@0.1.0" "send"
  (func $send (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
(data (i32.const 0x400) "GET")
(data (i32.const 0x410) "https://conformance.invalid/")
(data (i32.const 0x440) "key")
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $credentials (i32.const 32))
  (if (i32.load (i32.const 36)) (then (return (call $escaped))))
  (call $send (i32.const 0x400) (i32.const 3) (i32.const 0x410) (i32.const 28) (i32.const 0) (i32.const 0) (i32.const 1)
    (i32.const 0x440) (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 32))
  ;; All but `denied`.
  (if (i32.ne (i32.load8_u (i32.const 32)) (i32.const 1)) (then (return (call $escaped))))
  (if (i32.ne (i32.load8_u (i32.const 40)) (i32.const 1)) (then (return (call $escaped))))
  (call $ok))
