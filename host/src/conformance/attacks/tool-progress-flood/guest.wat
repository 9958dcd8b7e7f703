;; It tries to keep whoever watches busy with 10,000 reports.
(import "shelly:plugin/progress@0.1.0" "report"
  (func $progress (param f64 i32 f64 i32 i32 i32)))
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (local $n i32)
  (loop $more
    (call $progress (f64.const nan) (i32.const 1) (f64.const -inf) (i32.const 1) (i32.const 0x300000) (i32.const 5000))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $more (i32.lt_u (local.get $n) (i32.const 10000))))
  (call $ok))
