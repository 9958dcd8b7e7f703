;; It tries to send a request again to a model that it was not granted.
(data (i32.const 0x400) (i32 0 0 3 0 1 0x600 5))
(data (i32.const 0x600) "other")
(func (export "shelly:plugin/model-middleware@0.1.0#after") (param i32) (result i32)
  (i32.const 0x400))
