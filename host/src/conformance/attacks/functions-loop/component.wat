;; It tries never to return.
(component
  (core module $m (func (export "run") (loop $for-ever (br $for-ever))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
