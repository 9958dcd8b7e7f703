;; It tries to import a clock that its manifest does not ask for.
(import "shelly:plugin/clock@0.1.0" "now"
  (func $now (result i64)))
(table funcref (elem $now))
