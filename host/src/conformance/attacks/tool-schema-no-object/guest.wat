;; It tries to have a tool that takes no object.
(data (i32.const 0x400) (i32 0 0 0x440 1))
(data (i32.const 0x440) (i32 0x150 1 0x160 8 0x500 17 0 0 0 0 0 0))
(data (i32.const 0x500) "{\"type\":\"string\"}")
(func (export "shelly:plugin/tool@0.1.0#specs") (result i32)
  (i32.const 0x400))
