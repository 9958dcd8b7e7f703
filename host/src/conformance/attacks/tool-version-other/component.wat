;; It tries to export a version of the contract that nobody speaks.
(component
  (instance $i)
  (export "shelly:plugin/tool@9.9.0" (instance $i)))
