;; It tries to make 5,000 calls in one reply.
(memory $memory (export "memory") 600)
(data (i32.const 0x400) (i32 0 0 0x100000 5000 1))
(data (i32.const 0x480) (i32 3 0 0 0x500 6 0x510 2))
(data (i32.const 0x500) "lookup")
(data (i32.const 0x510) "{}")
(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32)
  (local $n i32)
  (loop $more
    (memory.copy (i32.add (i32.const 0x100000) (i32.mul (local.get $n) (i32.const 36))) (i32.const 0x480) (i32.const 36))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $more (i32.lt_u (local.get $n) (i32.const 5000))))
  (i32.const 0x400))
