;; It tries to take all memory while it is instantiated.
(func $begin (loop $more (br_if $more (i32.ge_s (memory.grow (i32.const 16)) (i32.const 0)))) (unreachable))
(start $begin)
