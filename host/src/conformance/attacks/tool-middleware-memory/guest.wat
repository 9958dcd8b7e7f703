;; It tries to take all memory at a result.
(func (export "shelly:plugin/tool-middleware@0.1.0#after") (param i32) (result i32)
  (loop $more (br_if $more (i32.ge_s (memory.grow (i32.const 16)) (i32.const 0))))
  (unreachable))
