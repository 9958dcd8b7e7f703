;; It tries to fill the log with 5,000 entries of 5,000 bytes.
(import "shelly:plugin/log@0.1.0" "write"
  (func $log (param i32 i32 i32)))
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (local $n i32)
  (loop $more
    (call $log (i32.const 1) (i32.const 0x300000) (i32.const 5000))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $more (i32.lt_u (local.get $n) (i32.const 5000))))
  (call $ok))
