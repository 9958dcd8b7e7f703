;; It tries to let a request go that it could not look at.
(func (export "shelly:plugin/model-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32) (result i32)
  (unreachable))
