;; It tries to say 17 MiB.
(memory $memory (export "memory") 600)
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $say (i32.const 0x300000) (i32.const 0x1100000)))
