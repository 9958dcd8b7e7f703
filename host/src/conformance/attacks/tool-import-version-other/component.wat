;; It tries to import a version of the contract that nobody speaks.
(component
  (import "shelly:plugin/log@9.9.0" (instance))
  (instance $i)
  (export "shelly:plugin/tool@0.1.0" (instance $i)))
