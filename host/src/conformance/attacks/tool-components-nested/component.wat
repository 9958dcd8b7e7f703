;; It tries to make the host follow fifty components into each other.
(component
  @open@ @close@
  (instance $i)
  (export "shelly:plugin/tool@0.1.0" (instance $i)))
