;; It tries to hand out bytes that it was not handed.
(data (i32.const 0x400) (i32 0 0 1 0x500 1))
(data (i32.const 0x500) (i32 2 0x600 9 0 0 0 1 0x610 7))
(data (i32.const 0x600) "image/png")
(data (i32.const 0x610) "earlier")
(func (export "shelly:plugin/tool-middleware@0.1.0#after") (param i32) (result i32)
  (i32.const 0x400))
