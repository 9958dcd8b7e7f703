;; It tries to remove and rename in a folder that it may only read.
(import "wasi:filesystem/preopens@0.2.0" "get-directories"
  (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.unlink-file-at"
  (func $unlink (param i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.rename-at"
  (func $rename (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.remove-directory-at"
  (func $rmdir (param i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.0" "[method]descriptor.create-directory-at"
  (func $mkdir (param i32 i32 i32 i32)))
(data (i32.const 0x500) "canary.txt")
(data (i32.const 0x510) "new.txt")
(data (i32.const 0x520) "deep")
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (local $folder i32)
  (call $directories (i32.const 16))
  (local.set $folder (i32.load (i32.load (i32.const 16))))
  (call $unlink (local.get $folder) (i32.const 0x500) (i32.const 10) (i32.const 32))
  (if (i32.eqz (i32.load8_u (i32.const 32))) (then (return (call $escaped))))
  (call $rename (local.get $folder) (i32.const 0x500) (i32.const 10) (local.get $folder) (i32.const 0x510) (i32.const 7) (i32.const 32))
  (if (i32.eqz (i32.load8_u (i32.const 32))) (then (return (call $escaped))))
  (call $rename (local.get $folder) (i32.const 0x520) (i32.const 4) (local.get $folder) (i32.const 0x510) (i32.const 7) (i32.const 32))
  (if (i32.eqz (i32.load8_u (i32.const 32))) (then (return (call $escaped))))
  (call $rmdir (local.get $folder) (i32.const 0x520) (i32.const 4) (i32.const 32))
  (if (i32.eqz (i32.load8_u (i32.const 32))) (then (return (call $escaped))))
  (call $mkdir (local.get $folder) (i32.const 0x510) (i32.const 7) (i32.const 32))
  (if (i32.eqz (i32.load8_u (i32.const 32))) (then (return (call $escaped))))
  (call $ok))
