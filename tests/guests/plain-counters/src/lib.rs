//! A guest for tests: a resource, its methods, and functions that borrow and take it.

#[allow(missing_docs, reason = "it is generated")]
mod bindings {
    wit_bindgen::generate!({
        inline: r#"
            package plain:counters@0.1.0;

            interface counters {
                resource counter {
                    constructor(start: u64);
                    increment: func(by: u64) -> result<u64, string>;
                    merge: static func(one: counter, other: counter) -> counter;
                }
                sum: func(one: borrow<counter>, other: borrow<counter>) -> u64;
                many: func(count: u32) -> list<counter>;
                alive: func() -> u32;
                crash: func();
                spin: func();
            }

            world plain {
                export counters;
            }
        "#,
        pub_export_macro: true,
    });
}

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering},
};

use bindings::exports::plain::counters::counters::{Counter, CounterBorrow, Guest, GuestCounter};

struct Plain;

bindings::export!(Plain with_types_in bindings);

/// How many there are.
static ALIVE: AtomicU32 = AtomicU32::new(0);

struct Count(Cell<u64>);

impl Drop for Count {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

impl GuestCounter for Count {
    fn new(start: u64) -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Self(Cell::new(start))
    }

    fn increment(&self, by: u64) -> Result<u64, String> {
        let sum = self.0.get().checked_add(by).ok_or_else(|| format!("{by} more is too much"))?;
        self.0.set(sum);
        Ok(sum)
    }

    fn merge(one: Counter, other: Counter) -> Counter {
        Counter::new(<Self as GuestCounter>::new(one.get::<Self>().0.get() + other.get::<Self>().0.get()))
    }
}

impl Guest for Plain {
    type Counter = Count;

    fn sum(one: CounterBorrow<'_>, other: CounterBorrow<'_>) -> u64 {
        one.get::<Count>().0.get() + other.get::<Count>().0.get()
    }

    fn many(count: u32) -> Vec<Counter> {
        (0..count).map(|start| Counter::new(<Count as GuestCounter>::new(start.into()))).collect()
    }

    fn alive() -> u32 {
        ALIVE.load(Ordering::Relaxed)
    }

    fn crash() {
        panic!("as asked for")
    }

    fn spin() {
        loop {
            std::hint::spin_loop();
        }
    }
}
