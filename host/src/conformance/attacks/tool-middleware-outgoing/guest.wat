;; It tries to read what goes to the model, which only those around requests may.
(import "shelly:plugin/outgoing@0.1.0" "get"
  (func $get (param i32)))
(table funcref (elem $get))
