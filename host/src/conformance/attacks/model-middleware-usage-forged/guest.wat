;; It tries to have tokens counted that no model used.
(data (i32.const 0x400) (i32 0 0 1 0 0x3a0 1))
(data (i32.const 0x428) (i32 0xffffffff 0xffffffff 0xffffffff 0xffffffff 0xffffffff 0xffffffff 0xffffffff 0xffffffff))
(func (export "shelly:plugin/model-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32) (result i32)
  (i32.const 0x400))
