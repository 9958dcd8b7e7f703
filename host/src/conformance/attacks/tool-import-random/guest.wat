;; It tries to have chance that was not granted.
(import "shelly:plugin/random@0.1.0" "bytes"
  (func $random (param i32 i32)))
(table funcref (elem $random))
