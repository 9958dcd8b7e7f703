;; It tries to have whoever follows the references of a schema go in a circle.
(data (i32.const 0x400) (i32 0 0 0x440 1))
(data (i32.const 0x440) (i32 0x150 1 0x160 8 0x1000 128 0 0 0 0 0 0))
(data (i32.const 0x1000) "{\"type\":\"object\",\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/a\"}},\"properties\":{\"x\":{\"$ref\":\"#\"}}}")
(func (export "shelly:plugin/tool@0.1.0#specs") (result i32)
  (i32.const 0x400))
