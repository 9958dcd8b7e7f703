;; It tries to have a person look through a topic of 1 MiB.
(data (i32.const 0x400) (i32 0 0 1 0x100 2 0x300000 0x100000))
(func (export "shelly:plugin/tool-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.const 0x400))
