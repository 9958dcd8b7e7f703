;; It tries to read the conversation, which no middleware may.
(import "shelly:plugin/chat@0.1.0" "read"
  (func $read (param i32 i32 i32)))
(table funcref (elem $read))
