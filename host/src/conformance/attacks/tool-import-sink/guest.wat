;; It tries to write into the reply of a model, as only a provider may.
(import "shelly:plugin/sink@0.1.0" "emit"
  (func $emit (param i32 i64 i64 i64 i64)))
(table funcref (elem $emit))
