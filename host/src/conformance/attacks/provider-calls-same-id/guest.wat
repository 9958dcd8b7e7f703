;; It tries to make two calls that cannot be told apart.
(data (i32.const 0x400) (i32 0 0 0x480 2 1))
(data (i32.const 0x480) (i32 3 0x100 2 0x500 6 0x510 2 0 0 3 0x100 2 0x500 6 0x510 2 0 0))
(data (i32.const 0x500) "lookup")
(data (i32.const 0x510) "{}")
(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32)
  (i32.const 0x400))
