;; It tries to take all memory.
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (loop $more (br_if $more (i32.ge_s (memory.grow (i32.const 16)) (i32.const 0))))
  (unreachable))
