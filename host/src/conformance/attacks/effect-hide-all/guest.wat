;; It tries to hide the tool that the model is about to call.
(data (i32.const 0x400) (i32 0 0 0 0 0 0x500 1))
(data (i32.const 0x500) (i32 3 0 0x600 1))
(data (i32.const 0x600) (i32 0x610 6))
(data (i32.const 0x610) "lookup")
(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32)
  (i32.const 0x400))
