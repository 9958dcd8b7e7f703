;; It tries to say half a megabyte of its tool in every request to a model.
(data (i32.const 0x400) (i32 0 0 0x440 1))
(data (i32.const 0x440) (i32 0x150 1 0x300000 0x80000 0x130 17 0 0 0 0 0 0))
(func (export "shelly:plugin/tool@0.1.0#specs") (result i32)
  (i32.const 0x400))
