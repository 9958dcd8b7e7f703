;; It tries to compute for ever in place of an answer, though a model has much time.
(func (export "shelly:plugin/provider@0.1.0#complete") (param i32) (result i32)
  (loop $for-ever (br $for-ever))
  (unreachable))
