;; It tries to have the host remember 65,537 bytes during a call.
(data (i32.const 0x428) (i32 0x300000 65537))
(func (export "shelly:plugin/tool-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.const 0x400))
