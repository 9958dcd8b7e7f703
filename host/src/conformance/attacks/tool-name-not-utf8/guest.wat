;; It tries to have a tool whose name is not UTF-8.
(data (i32.const 0x400) (i32 0 0 0x440 1))
(data (i32.const 0x440) (i32 0x500 2 0x160 8 0x130 17 0 0 0 0 0 0))
(data (i32.const 0x500) "\ff\fe")
(func (export "shelly:plugin/tool@0.1.0#specs") (result i32)
  (i32.const 0x400))
