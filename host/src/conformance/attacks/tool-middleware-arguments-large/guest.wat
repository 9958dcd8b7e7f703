;; It tries to call a tool with arguments of 2 MiB.
(memory $memory (export "memory") 100)
(data (i32.const 0x41c) (i32 1 0x300000 0x200000))
(func (export "shelly:plugin/tool-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (memory.fill (i32.const 0x300000) (i32.const 32) (i32.const 0x200000))
  (i32.store8 (i32.const 0x300000) (i32.const 123))
  (i32.store8 (i32.const 0x4fffff) (i32.const 125))
  (i32.const 0x400))
