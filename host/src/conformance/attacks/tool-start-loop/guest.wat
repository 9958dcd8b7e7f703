;; It tries to keep the host waiting while it is instantiated.
(func $begin (loop $for-ever (br $for-ever)))
(start $begin)
