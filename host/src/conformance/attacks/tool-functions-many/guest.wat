;; It tries to keep the compiler busy with 4,000 functions.
@functions@
