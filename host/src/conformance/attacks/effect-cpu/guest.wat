;; It tries to compute for ever in a turn, though its time on the wall is long.
(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32)
  (loop $for-ever (br $for-ever))
  (unreachable))
