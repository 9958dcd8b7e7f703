;; It tries to have another request sent than the one that it may not see.
(data (i32.const 0x400) (i32 0 0 0 0 0 0 0 1 0x500 1))
(data (i32.const 0x500) (i32 0 0 1 0x540 1))
(data (i32.const 0x540) (i32 0 0x100 2))
(func (export "shelly:plugin/model-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32) (result i32)
  (i32.const 0x400))
