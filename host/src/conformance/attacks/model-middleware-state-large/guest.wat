;; It tries to have the host remember 65,537 bytes until the reply.
(data (i32.const 0x460) (i32 0x300000 65537))
(func (export "shelly:plugin/model-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32) (result i32)
  (i32.const 0x400))
