;; It tries to have a table of a hundred million elements.
(table 100000000 funcref)
