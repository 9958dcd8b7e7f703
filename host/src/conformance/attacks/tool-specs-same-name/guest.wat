;; It tries to have two tools of one name.
(data (i32.const 0x400) (i32 0 0 0x440 2))
(data (i32.const 0x440) (i32 0x150 1 0x160 8 0x130 17 0 0 0 0 0 0 0x150 1 0x160 8 0x130 17 0 0 0 0 0 0))
(func (export "shelly:plugin/tool@0.1.0#specs") (result i32)
  (i32.const 0x400))
