;; It tries to use up the handles of the host.
(import "wasi:filesystem/preopens@0.2.0" "get-directories"
  (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(data (i32.const 0x500) "inside.txt")
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (local $folder i32) (local $n i32)
  (call $directories (i32.const 16))
  (local.set $folder (i32.load (i32.load (i32.const 16))))
  (loop $more
    (call $open (local.get $folder) (i32.const 0) (i32.const 0x500) (i32.const 10) (i32.const 0) (i32.const 1) (i32.const 32))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $more (i32.lt_u (local.get $n) (i32.const 10000))))
  (call $ok))
