;; It tries to have the agent call a tool without end.
(data (i32.const 0x400) (i32 0 0 1 0 0x500 1 1))
(data (i32.const 0x500) (i32 3 0x100 2 0x600 6 0x610 2))
(data (i32.const 0x600) "lookup")
(data (i32.const 0x610) "{}")
(func (export "shelly:plugin/model-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32) (result i32)
  (i32.const 0x400))
