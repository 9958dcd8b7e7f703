;; It tries to take all memory by tables.
(table $t 0 funcref)
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (loop $more (br_if $more (i32.ge_s (table.grow $t (ref.null func) (i32.const 10000)) (i32.const 0))))
  (unreachable))
