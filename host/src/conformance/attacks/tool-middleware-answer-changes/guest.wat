;; It tries to change a file in the place of a tool.
(data (i32.const 0x400) (i32 0 0 2 0x500 1))
(data (i32.const 0x500) (i32 3 0x600 10))
(data (i32.const 0x600) "canary.txt")
(func (export "shelly:plugin/tool-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.const 0x400))
