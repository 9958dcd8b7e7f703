;; It tries to ask a model that it was not granted.
(data (i32.const 0x400) (i32 0 0 0 0 1 1 0x600 5))
(data (i32.const 0x600) "other")
(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32)
  (i32.const 0x400))
