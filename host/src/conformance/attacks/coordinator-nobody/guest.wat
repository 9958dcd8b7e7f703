;; It tries to hold up the team for ever by having nobody work.
(func (export "shelly:plugin/coordinator@0.1.0#next") (param i32) (result i32)
  (i32.const 0x280))
