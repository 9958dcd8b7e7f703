;; It tries to have the host change a file for it.
(data (i32.const 0x400) (i32 0 0 0x440 1))
(data (i32.const 0x440) (i32 3 0x500 21))
(data (i32.const 0x500) "../outside/secret.txt")
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.const 0x400))
