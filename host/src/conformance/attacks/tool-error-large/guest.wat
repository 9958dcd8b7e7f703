;; It tries to fill the conversation by an error of half a megabyte.
(data (i32.const 0x400) (i32 1 0 0 0 0x300000 0x80000))
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.const 0x400))
