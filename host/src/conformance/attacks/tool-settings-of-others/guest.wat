;; It tries to read the settings of another plugin of its agent.
(import "shelly:plugin/config@0.1.0" "get"
  (func $config (param i32)))
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (call $config (i32.const 16))
  (call $say (i32.load (i32.const 16)) (i32.load (i32.const 20))))
