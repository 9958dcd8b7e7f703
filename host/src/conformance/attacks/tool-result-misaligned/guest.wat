;; It tries to answer with a pointer between two words.
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.const 0x1d1))
