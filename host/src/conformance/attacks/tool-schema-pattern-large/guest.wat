;; It tries to have a pattern compiled that repeats a repetition of a repetition.
(data (i32.const 0x400) (i32 0 0 0x440 1))
(data (i32.const 0x440) (i32 0x150 1 0x160 8 0x1000 100 0 0 0 0 0 0))
(data (i32.const 0x1000) "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"string\",\"pattern\":\"^(((a{1000}){1000}){1000}){1000}$\"}}}")
(func (export "shelly:plugin/tool@0.1.0#specs") (result i32)
  (i32.const 0x400))
