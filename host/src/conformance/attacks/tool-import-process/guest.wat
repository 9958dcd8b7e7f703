;; It tries to run programs without a grant.
(import "shelly:plugin/process@0.1.0" "run"
  (func $run (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))
(table funcref (elem $run))
