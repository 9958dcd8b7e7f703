;; It tries to call a tool with arguments that are no object.
(data (i32.const 0x41c) (i32 1 0x600 3))
(data (i32.const 0x600) "[1]")
(func (export "shelly:plugin/tool-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.const 0x400))
