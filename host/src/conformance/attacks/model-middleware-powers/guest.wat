;; It tries to have a power that is for effects.
;; It is polite in all else.
