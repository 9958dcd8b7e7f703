;; It tries to keep the host waiting for its tools.
(func (export "shelly:plugin/tool@0.1.0#specs") (result i32)
  (loop $for-ever (br $for-ever))
  (unreachable))
