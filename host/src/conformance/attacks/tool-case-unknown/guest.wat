;; It tries to answer with a case that the contract has not.
(data (i32.const 0x400) (i32 0 0 0x440 1))
(data (i32.const 0x440) (i32 77))
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.const 0x400))
