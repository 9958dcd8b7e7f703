;; It tries to make ten thousand changes at once.
(data (i32.const 0x400) (i32 0 0 0 0 0 0x300000 10000))
(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32)
  (i32.const 0x400))
