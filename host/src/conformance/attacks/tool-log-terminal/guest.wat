;; It tries to name the window, clear the terminal, turn the line and forge an error.
(import "shelly:plugin/log@0.1.0" "write"
  (func $log (param i32 i32 i32)))
(data (i32.const 0x400) "\1b]0;owned\07\1b[2J\u{202e}txt.exe\0d\0aerror: forged\u{9b}31m")
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $log (i32.const 3) (i32.const 0x400) (i32.const 49))
  (call $ok))
