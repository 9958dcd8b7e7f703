;; It tries to compute for ever at a call, though its time on the wall is long.
(func (export "shelly:plugin/tool-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (loop $for-ever (br $for-ever))
  (unreachable))
