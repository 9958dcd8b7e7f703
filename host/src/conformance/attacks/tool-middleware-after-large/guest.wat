;; It tries to put 17 MiB in place of a result.
(memory $memory (export "memory") 600)
(data (i32.const 0x400) (i32 0 0 1 0x500 1))
(data (i32.const 0x500) (i32 0 0x300000 0x1100000))
(func (export "shelly:plugin/tool-middleware@0.1.0#after") (param i32) (result i32)
  (i32.const 0x400))
