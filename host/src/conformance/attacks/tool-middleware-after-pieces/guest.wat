;; It tries to have the model read 20,000 pieces.
(memory $memory (export "memory") 100)
(data (i32.const 0x400) (i32 0 0 1 0x300000 20000))
(func (export "shelly:plugin/tool-middleware@0.1.0#after") (param i32) (result i32)
  (i32.const 0x400))
