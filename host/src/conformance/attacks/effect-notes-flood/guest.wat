;; It tries to fill the conversation by 1,024 notes of 16 KiB in one step.
(data (i32.const 0x400) (i32 0 0 0 0 0 0x500 1024))
(data (i32.const 0x500) (i32 @notes@))
(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32)
  (i32.const 0x400))
