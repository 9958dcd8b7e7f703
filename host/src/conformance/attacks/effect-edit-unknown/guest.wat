;; It tries to make a change that this host does not know.
(data (i32.const 0x400) (i32 0 0 0 0 0 0x500 1))
(data (i32.const 0x500) (i32 5 0 0x300000 0x80000 0x100 2))
(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32)
  (i32.const 0x400))
