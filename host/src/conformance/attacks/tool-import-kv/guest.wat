;; It tries to keep values without a grant.
(import "shelly:plugin/kv@0.1.0" "get"
  (func $get (param i32 i32 i32)))
(table funcref (elem $get))
