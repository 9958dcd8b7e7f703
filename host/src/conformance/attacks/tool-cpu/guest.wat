;; It tries to compute for ever, though its time on the wall is long.
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (loop $for-ever (br $for-ever))
  (unreachable))
