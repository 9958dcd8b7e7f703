;; It tries to wait for ever for a pipe that nobody writes to.
(import "wasi:filesystem/preopens@0.2.0" "get-directories"
  (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.read"
  (func $read (param i32 i64 i64 i32)))
(data (i32.const 0x500) "pipe")
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (local $folder i32)
  (call $directories (i32.const 16))
  (local.set $folder (i32.load (i32.load (i32.const 16))))
  (call $open (local.get $folder) (i32.const 0) (i32.const 0x500) (i32.const 4) (i32.const 0) (i32.const 1) (i32.const 32))
  (if (i32.eqz (i32.load8_u (i32.const 32)))
    (then (call $read (i32.load (i32.const 36)) (i64.const 1) (i64.const 0) (i32.const 48))))
  (call $ok))
