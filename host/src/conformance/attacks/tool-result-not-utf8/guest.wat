;; It tries to say what is not UTF-8.
(data (i32.const 0x400) "\ff\fe\c0\80")
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $say (i32.const 0x400) (i32.const 4)))
