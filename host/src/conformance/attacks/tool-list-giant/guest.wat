;; It tries to answer with a list of four thousand million pieces.
(data (i32.const 0x400) (i32 0 0 8 0xffffffff))
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.const 0x400))
