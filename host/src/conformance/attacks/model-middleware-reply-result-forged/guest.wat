;; It tries to put a result into a reply that no tool gave.
(data (i32.const 0x400) (i32 0 0 1 0 0x540 1))
(data (i32.const 0x540) (i32 4 0x580 7 0x170 1 0))
(data (i32.const 0x580) "earlier")
(func (export "shelly:plugin/model-middleware@0.1.0#after") (param i32) (result i32)
  (i32.const 0x400))
