;; It tries to have a value compared with 4,500 others.
(data (i32.const 0x400) (i32 0 0 0x440 1))
(data (i32.const 0x440) (i32 0x150 1 0x160 8 0x1000 57442 0 0 0 0 0 0))
(data (i32.const 0x1000) "{\"type\":\"object\",\"properties\":{\"x\":{\"enum\":[0@more@]}}}")
(func (export "shelly:plugin/tool@0.1.0#specs") (result i32)
  (i32.const 0x400))
