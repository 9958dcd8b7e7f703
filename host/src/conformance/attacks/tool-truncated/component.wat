;; It tries to be cut off in the middle.
(component binary "\00asm\0d\00\01\00\07\20\01")
