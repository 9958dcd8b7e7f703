;; It tries to answer with a pointer that leads out of its memory.
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.const -16))
