;; It tries to read a conversation that was not granted.
(import "shelly:plugin/chat@0.1.0" "read"
  (func $read (param i32 i32 i32)))
(table funcref (elem $read))
