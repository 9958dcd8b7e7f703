;; It tries to be a tool without functions.
(component
  (instance $i)
  (export "shelly:plugin/tool@0.1.0" (instance $i)))
