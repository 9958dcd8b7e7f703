;; It tries to be taken for a component without being one.
(module)
