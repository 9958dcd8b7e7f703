;; It tries to have the agent try again without end.
(data (i32.const 0x400) (i32 0 0 3))
(func (export "shelly:plugin/run-middleware@0.1.0#after") (param i32) (result i32)
  (i32.const 0x400))
