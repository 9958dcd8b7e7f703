;; It tries to answer with a text of four thousand million bytes.
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $say (i32.const 8) (i32.const -1)))
