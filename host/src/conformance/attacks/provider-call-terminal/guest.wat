;; It tries to clear the terminal by the name and the arguments of a call.
(data (i32.const 0x400) (i32 0 0 0x480 1 1))
(data (i32.const 0x480) (i32 3 0x100 2 0x500 13 0x500 13))
(data (i32.const 0x500) "\1b]0;owned\07\u{202e}")
(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32)
  (i32.const 0x400))
