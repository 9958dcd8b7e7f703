;; It tries to reach the network without a grant.
(import "shelly:plugin/http@0.1.0" "credentials"
  (func $credentials (param i32)))
(table funcref (elem $credentials))
