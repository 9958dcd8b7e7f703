;; It tries to ask the model at the cost of its agent without the power `ask-model`.
(data (i32.const 0x400) (i32 0 0 0 0 1))
(func (export "shelly:plugin/effect@0.1.0#eval") (param i32) (result i32)
  (i32.const 0x400))
