;; It tries to have 50,000 segments of data laid into a memory.
(component
  (core module $m
    (func (export "run"))
    (memory 1)
    @segments@)
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
