;; It tries to say half a megabyte of which model it is.
(data (i32.const 0x400) (i32 0 0 0x3a0 1 0 0 0 0 0 0 0 0 0 0 0 0 0x300000 0x80000))
(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32)
  (i32.const 0x400))
