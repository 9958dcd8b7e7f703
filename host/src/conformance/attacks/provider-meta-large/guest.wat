;; It tries to put 20,000 facts beside its reply.
(data (i32.const 0x400) (i32 0 0 0x3a0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0x300000 20000))
(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32)
  (i32.const 0x400))
