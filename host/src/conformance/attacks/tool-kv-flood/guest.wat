;; It tries to keep 100 MiB in its store.
(import "shelly:plugin/kv@0.1.0" "set"
  (func $set (param i32 i32 i32 i32 i32 i32)))
(memory $memory (export "memory") 600)
(data (i32.const 0x400) "key 000")
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (local $n i32)
  (loop $more
    (i32.store8 (i32.const 0x405) (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 64))))
    (i32.store8 (i32.const 0x406) (i32.add (i32.const 48) (i32.div_u (local.get $n) (i32.const 64))))
    (call $set (i32.const 0x400) (i32.const 7) (i32.const 1) (i32.const 0x300000) (i32.const 0x100000) (i32.const 32))
    ;; It is full, as it should be.
    (if (i32.load8_u (i32.const 32)) (then (return (call $ok))))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $more (i32.lt_u (local.get $n) (i32.const 100))))
  (call $escaped))
