;; It tries to make the host instantiate a thousand modules.
(component
  (core module $m)
  @instances@
  (instance $i)
  (export "shelly:plugin/tool@0.1.0" (instance $i)))
