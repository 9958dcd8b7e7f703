;; It tries to offer the model a tool that the agent has not.
(data (i32.const 0x400) (i32 0 0 0 0 0 0 0 1 0x500 1 0x580 1))
(data (i32.const 0x500) (i32 0 0 1 0x540 1))
(data (i32.const 0x540) (i32 0 0x100 2))
(data (i32.const 0x580) (i32 0x600 5 0x160 8 0x130 17))
(data (i32.const 0x600) "shell")
(func (export "shelly:plugin/model-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32) (result i32)
  (i32.const 0x400))
