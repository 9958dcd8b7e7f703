;; It tries to be loaded as a coordinator, which this version of the contract has and no host runs yet.
;; It is polite in all else.
