;; It tries to read outside of its folder by `..`.
(import "wasi:filesystem/preopens@0.2.0" "get-directories"
  (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.read"
  (func $read (param i32 i64 i64 i32)))
(data (i32.const 0x500) "../outside/secret.txt")
(data (i32.const 0x520) "deep/../../outside/secret.txt")
(data (i32.const 0x540) "..")
(data (i32.const 0x550) "./../outside")
(data (i32.const 0x480) (i32 0x500 21 0x520 29 0x540 2 0x550 12))
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (local $folder i32) (local $at i32)
  (call $directories (i32.const 16))
  (local.set $folder (i32.load (i32.load (i32.const 16))))
  (loop $next
    (call $open (local.get $folder) (i32.const 0)
      (i32.load offset=0x480 (local.get $at)) (i32.load offset=0x484 (local.get $at))
      (i32.const 0) (i32.const 1) (i32.const 32))
    (if (i32.eqz (i32.load8_u (i32.const 32)))
      (then
        (call $read (i32.load (i32.const 36)) (i64.const 4096) (i64.const 0) (i32.const 48))
        (if (i32.eqz (i32.load8_u (i32.const 48)))
          (then (return (call $say (i32.load (i32.const 52)) (i32.load (i32.const 56))))))
        (return (call $escaped))))
    (local.set $at (i32.add (local.get $at) (i32.const 8)))
    (br_if $next (i32.lt_u (local.get $at) (i32.const 32))))
  (call $ok))
