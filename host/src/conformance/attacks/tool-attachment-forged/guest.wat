;; It tries to be given an attachment that nobody handed it.
(data (i32.const 0x400) (i32 0 0 0x440 1))
(data (i32.const 0x440) (i32 2 0x500 9 0 0 0 1 0x510 64))
(data (i32.const 0x500) "image/png")
(data (i32.const 0x510) "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (i32.const 0x400))
