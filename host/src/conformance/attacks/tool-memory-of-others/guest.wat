;; It tries to find in fresh memory what somebody left there.
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (local $at i32) (local $end i32)
  (local.set $at (i32.shl (memory.grow (i32.const 256)) (i32.const 16)))
  (local.set $end (i32.shl (memory.size) (i32.const 16)))
  (loop $more
    (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then (return (call $escaped))))
    (i64.store (local.get $at) (i64.const -1))
    (local.set $at (i32.add (local.get $at) (i32.const 8)))
    (br_if $more (i32.lt_u (local.get $at) (local.get $end))))
  (call $ok))
