;; It tries to see a clock that was not granted.
(import "shelly:plugin/clock@0.1.0" "now"
  (func $now (result i64)))
(table funcref (elem $now))
