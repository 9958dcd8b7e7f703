;; It tries to use up the stack.
(func $deep (param i32) (result i32)
  (i32.add (i32.const 1) (call $deep (local.get 0))))
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $deep (i32.const 0)))
