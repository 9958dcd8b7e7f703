;; It tries to have the host hold more handles than it may: a thousand of them in one list.
(component
  (core module $r (func (export "dropped") (param i32)))
  (core instance $of-r (instantiate $r))
  (type $thing (resource (rep i32) (dtor (core func $of-r "dropped"))))
  (core func $new (canon resource.new $thing))
  (core module $m
    (import "host" "new" (func $new (param i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "run") (result i32) (local $n i32)
      (loop $more
        (i32.store (i32.add (i32.const 256) (i32.mul (local.get $n) (i32.const 4))) (call $new (local.get $n)))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $n) (i32.const 1000))))
      (i32.store (i32.const 16) (i32.const 256))
      (i32.store (i32.const 20) (i32.const 1000))
      (i32.const 16)))
  (core instance $i (instantiate $m (with "host" (instance (export "new" (func $new))))))
  (export $shown "thing" (type $thing))
  (func (export "run") (result (list (own $shown))) (canon lift (core func $i "run") (memory (core memory $i "memory")))))
