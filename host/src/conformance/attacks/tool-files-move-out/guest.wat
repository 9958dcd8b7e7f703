;; It tries to move and link outside of a folder that it may write.
(import "wasi:filesystem/preopens@0.2.0" "get-directories"
  (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.rename-at"
  (func $rename (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.link-at"
  (func $link (param i32 i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.unlink-file-at"
  (func $unlink (param i32 i32 i32 i32)))
(data (i32.const 0x500) "inside.txt")
(data (i32.const 0x510) "../outside/mine")
(data (i32.const 0x520) "folder-link/mine")
(data (i32.const 0x540) "mine")
(data (i32.const 0x550) "../outside/secret.txt")
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (local $folder i32)
  (call $directories (i32.const 16))
  (local.set $folder (i32.load (i32.load (i32.const 16))))
  (call $rename (local.get $folder) (i32.const 0x500) (i32.const 10) (local.get $folder) (i32.const 0x510) (i32.const 15) (i32.const 32))
  (if (i32.eqz (i32.load8_u (i32.const 32))) (then (return (call $escaped))))
  (call $rename (local.get $folder) (i32.const 0x500) (i32.const 10) (local.get $folder) (i32.const 0x520) (i32.const 16) (i32.const 32))
  (if (i32.eqz (i32.load8_u (i32.const 32))) (then (return (call $escaped))))
  (call $rename (local.get $folder) (i32.const 0x550) (i32.const 21) (local.get $folder) (i32.const 0x540) (i32.const 4) (i32.const 32))
  (if (i32.eqz (i32.load8_u (i32.const 32))) (then (return (call $escaped))))
  (call $link (local.get $folder) (i32.const 0) (i32.const 0x500) (i32.const 10) (local.get $folder) (i32.const 0x510) (i32.const 15) (i32.const 32))
  (if (i32.eqz (i32.load8_u (i32.const 32))) (then (return (call $escaped))))
  (call $unlink (local.get $folder) (i32.const 0x550) (i32.const 21) (i32.const 32))
  (if (i32.eqz (i32.load8_u (i32.const 32))) (then (return (call $escaped))))
  (call $ok))
