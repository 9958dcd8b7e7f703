;; It tries to leave a call without its result, or a result without its call.
(data (i32.const 0x400) (i32 0 0 0 0 0 0x500 8))
(data (i32.const 0x500) (i32 2 0 0 0 0 0 0 0 2 0 1 0 1 0 0 0 2 0 2 0 2 0 0 0 2 0 3 0 3 0 0 0 2 0 4 0 4 0 0 0 2 0 5 0 5 0 0 0 2 0 6 0 6 0 0 0 2 0 7 0 7 0 0 0))
(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32)
  (i32.const 0x400))
