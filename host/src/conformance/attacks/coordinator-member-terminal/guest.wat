;; It tries to have somebody work whose name acts on the terminal of a person.
(data (i32.const 0x400) (i32 0 0 0 0 0 0x500 1))
(data (i32.const 0x500) (i32 0x520 8))
(data (i32.const 0x520) "\1b[2Jgone")
(func (export "shelly:plugin/coordinator@0.1.0#next") (param i32) (result i32)
  (i32.const 0x400))
