;; It tries to report how far a tool is, as only a tool may.
(import "shelly:plugin/progress@0.1.0" "report"
  (func $progress (param f64 i32 f64 i32 i32 i32)))
(table funcref (elem $progress))
