;; It tries to change the result of a call without the power `edit-results`.
(data (i32.const 0x400) (i32 0 0 0 0 0 0x500 1))
(data (i32.const 0x500) (i32 1 0 0x600 7 0x170 1))
(data (i32.const 0x600) "earlier")
(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32)
  (i32.const 0x400))
