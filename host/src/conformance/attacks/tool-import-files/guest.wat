;; It tries to open folders that were not granted.
(import "wasi:filesystem/preopens@0.2.0" "get-directories"
  (func $directories (param i32)))
(table funcref (elem $directories))
