;; It tries to import `wasi:sockets/tcp@0.2.0`.
(component
  (import "wasi:sockets/tcp@0.2.0" (instance))
  (instance $i)
  (export "shelly:plugin/tool@0.1.0" (instance $i)))
