;; It tries to fail with 1 MiB of reasons.
(data (i32.const 0x400) (i32 1 0 8 0 0x300000 0x100000))
(func (export "shelly:plugin/coordinator@0.1.0#next") (param i32) (result i32)
  (i32.const 0x400))
