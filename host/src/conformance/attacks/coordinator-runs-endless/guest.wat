;; It tries to have a member work without end.
(data (i32.const 0x400) (i32 0 0 0 0 0 0x500 1))
(data (i32.const 0x500) (i32 0x520 6 0 0 0))
(data (i32.const 0x520) "member")
(func (export "shelly:plugin/coordinator@0.1.0#next") (param i32) (result i32)
  (i32.const 0x400))
