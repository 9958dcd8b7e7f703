;; It tries to answer for a call of long ago.
(data (i32.const 0x400) (i32 0 0 0x480 1 1))
(data (i32.const 0x480) (i32 3 0x520 7 0x500 6 0x510 2))
(data (i32.const 0x520) "earlier")
(data (i32.const 0x500) "lookup")
(data (i32.const 0x510) "{}")
(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32)
  (i32.const 0x400))
