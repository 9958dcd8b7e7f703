;; It tries to read outside of its folder by paths that become links while they are opened.
(import "wasi:filesystem/preopens@0.2.0" "get-directories"
  (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.0" "[resource-drop]descriptor"
  (func $close (param i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.read"
  (func $read (param i32 i64 i64 i32)))
(data (i32.const 0x500) "raced/secret.txt")
(data (i32.const 0x520) "raced.txt")
(data (i32.const 0x480) (i32 0x500 16 0x520 9))
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (local $folder i32) (local $at i32) (local $round i32)
  (call $directories (i32.const 16))
  (local.set $folder (i32.load (i32.load (i32.const 16))))
  (loop $next
    (local.set $at (i32.mul (i32.and (local.get $round) (i32.const 1)) (i32.const 8)))
    ;; Every other pair of opens follows links.
    (call $open (local.get $folder) (i32.and (i32.shr_u (local.get $round) (i32.const 1)) (i32.const 1))
      (i32.load offset=0x480 (local.get $at)) (i32.load offset=0x484 (local.get $at))
      (i32.const 0) (i32.const 1) (i32.const 32))
    (if (i32.eqz (i32.load8_u (i32.const 32)))
      (then
        (call $read (i32.load (i32.const 36)) (i64.const 64) (i64.const 0) (i32.const 48))
        (call $close (i32.load (i32.const 36)))
        ;; What is inside begins with "i"; a folder or an empty file is no secret.
        (if (i32.and (i32.eqz (i32.load8_u (i32.const 48))) (i32.ne (i32.load (i32.const 56)) (i32.const 0)))
          (then
            (if (i32.ne (i32.load8_u (i32.load (i32.const 52))) (i32.const 105))
              (then (return (call $say (i32.load (i32.const 52)) (i32.load (i32.const 56))))))))))
    (local.set $round (i32.add (local.get $round) (i32.const 1)))
    (br_if $next (i32.lt_u (local.get $round) (i32.const 4000))))
  (call $ok))
