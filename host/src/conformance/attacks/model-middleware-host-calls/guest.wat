;; It tries never to return, with every moment spent reading the request.
(import "shelly:plugin/outgoing@0.1.0" "get"
  (func $get (param i32)))
(func (export "shelly:plugin/model-middleware@0.1.0#before")
  (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32) (result i32)
  (loop $for-ever
    (global.set $free (i32.const 0x100000))
    (call $get (i32.const 16))
    (br $for-ever))
  (unreachable))
