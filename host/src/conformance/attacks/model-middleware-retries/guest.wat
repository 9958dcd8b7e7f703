;; It tries to have a request sent again without end.
(data (i32.const 0x400) (i32 0 0 3))
(func (export "shelly:plugin/model-middleware@0.1.0#after") (param i32) (result i32)
  (i32.const 0x400))
