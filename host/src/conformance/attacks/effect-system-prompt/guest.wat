;; It tries to replace the instructions of the agent without the power `system-prompt`.
(data (i32.const 0x400) (i32 0 0 0 0 0 0x500 6))
(data (i32.const 0x500) (i32 2 0 0 0 0 0 0x700 1 2 0 1 0 1 0 0x700 1 2 0 2 0 2 0 0x700 1 2 0 3 0 3 0 0x700 1 2 0 4 0 4 0 0x700 1 2 0 5 0 5 0 0x700 1))
(data (i32.const 0x700) (i32 0 0 0 0x740 1 0 0))
(data (i32.const 0x740) (i32 0 0x100 2))
(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32)
  (i32.const 0x400))
