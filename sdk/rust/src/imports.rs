//! What the host lends to a plugin. `log` and the params are always there; the rest as the plugin was granted. A plugin
//! imports only what it calls.
//!
//! On your own machine, where unit tests run, there is no host: log entries go to standard error, params are `{}`,
//! progress goes nowhere, pieces of a reply are kept for the test, and all other functions panic with their name, so that
//! one test fails and the others go on.

use serde::de::DeserializeOwned;

use crate::{bindings::imports::shelly::plugin as host, types::Error};

const IN_HOST: bool = cfg!(target_arch = "wasm32");

/// Panics in a unit test that calls a function of the host. The generated function would abort the process, with all of its
/// tests.
#[track_caller]
pub(crate) fn only_in_host(function: &str) {
    if !IN_HOST {
        panic!(
            "shelly_plugin::{function} asks the host, and in a unit test on your own machine there is none: have what you \
             test take what it reads as an argument, or run the plugin in shelly-host"
        );
    }
}

/// Defines functions of the host that panic where there is none.
macro_rules! of_host {
    ($(#[$about:meta])* $module:ident { $($(#[$doc:meta])* $name:ident($($arg:ident: $of:ty),*) -> $result:ty;)* }) => {
        $(#[$about])*
        pub mod $module {
            #[doc(inline)]
            #[allow(unused_imports, reason = "some have types")]
            pub use types::*;

            #[allow(unused_imports, reason = "some have types")]
            use super::host::{self, $module as types};

            $($(#[$doc])*
            #[track_caller]
            pub fn $name($($arg: $of),*) -> $result {
                super::only_in_host(concat!(stringify!($module), "::", stringify!($name)));
                host::$module::$name($($arg),*)
            })*
        }
    };
}

of_host! {
    /// The bytes behind `Source::Attachment`. Always there for providers.
    attachments {
        /// At most `max` bytes from `offset`; fewer at the end, none beyond it. Bound: 1 MiB a call.
        read(id: &str, offset: u64, max: u32) -> Result<Vec<u8>, Error>;
    }
}

of_host! {
    /// The time. `clock = true` in `[wants]` asks for it.
    clock {
        /// Milliseconds since 1970-01-01T00:00Z.
        now() -> u64;
        /// Nanoseconds since some moment before the call; never runs back.
        monotonic() -> u64;
    }
}

of_host! {
    /// The request that a call of a model middleware is about. Always there for model middlewares.
    outgoing {
        /// All of it, as the middlewares before this one left it. Costs a copy of the conversation; without the power
        /// `see-messages` the messages have no parts.
        get() -> Request;
    }
}

of_host! {
    /// Runs a program that the grant lists, in a folder of its own. `programs = true` in `[wants]` asks for it.
    process {
        /// Runs it to its end. Cancel and timeout kill all processes that it started.
        run(command: &Command) -> Result<Output, Error>;
    }
}

of_host! {
    /// Chance. `random = true` in `[wants]` asks for it.
    random {
        /// Fit for keys. Bound: 64 KiB a call.
        bytes(len: u32) -> Vec<u8>;
    }
}

/// The plugin's params for this agent. The error names the field that is wrong.
pub fn config<T: DeserializeOwned>() -> Result<T, Error> {
    let params = if IN_HOST { host::config::get() } else { "{}".to_owned() };
    crate::json::parse(&params).map_err(|cause| Error::Invalid(format!("params: {cause}")))
}

/// The host's log; most easily through [`debug!`](crate::debug), [`info!`](crate::info), [`warn!`](crate::warn) and
/// [`error!`](crate::error).
pub mod log {
    use super::{IN_HOST, host};

    #[doc(inline)]
    pub use host::log::Level;

    /// Writes one entry. Bounds: 4 KiB an entry (cut), 1,000 entries a call (then dropped and counted).
    pub fn write(level: Level, message: &str) {
        if IN_HOST {
            host::log::write(level, message);
        } else {
            eprintln!("{level:?}: {message}");
        }
    }
}

/// How far a tool call is.
pub mod progress {
    use super::{IN_HOST, host};

    /// `done` of `total` in a unit of your choice, growing; no total where the end is not known.
    pub fn report(done: f64, total: Option<f64>, message: Option<&str>) {
        if IN_HOST {
            host::progress::report(done, total, message);
        }
    }
}

/// Where a provider hands on pieces of its reply.
pub mod sink {
    use super::host;

    #[doc(inline)]
    pub use host::sink::Delta;

    /// Hands on one piece, and waits while the consumer is behind. Bound: 64 KiB.
    #[cfg(target_arch = "wasm32")]
    pub fn emit(delta: &Delta) {
        host::sink::emit(delta);
    }

    #[cfg(not(target_arch = "wasm32"))]
    thread_local! {
        static EMITTED: std::cell::RefCell<Vec<Delta>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    /// Hands on one piece, and waits while the consumer is behind. Bound: 64 KiB.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn emit(delta: &Delta) {
        EMITTED.with_borrow_mut(|emitted| emitted.push(delta.clone()));
    }

    /// What this thread has handed on since it last asked: for unit tests on your own machine.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn emitted() -> Vec<Delta> {
        EMITTED.take()
    }
}

/// Logs something that only matters while looking for a fault. Takes what `format!` takes.
#[macro_export]
macro_rules! debug {
    ($($args:tt)*) => { $crate::log::write($crate::log::Level::Debug, &::std::format!($($args)*)) };
}

/// Logs what happens in good order. Takes what `format!` takes.
#[macro_export]
macro_rules! info {
    ($($args:tt)*) => { $crate::log::write($crate::log::Level::Info, &::std::format!($($args)*)) };
}

/// Logs what is odd but bearable. Takes what `format!` takes.
#[macro_export]
macro_rules! warn {
    ($($args:tt)*) => { $crate::log::write($crate::log::Level::Warn, &::std::format!($($args)*)) };
}

/// Logs what went wrong. Takes what `format!` takes.
#[macro_export]
macro_rules! error {
    ($($args:tt)*) => { $crate::log::write($crate::log::Level::Error, &::std::format!($($args)*)) };
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// What a function panics with.
    fn panics<T>(call: impl FnOnce() -> T) -> String {
        let panic = catch_unwind(AssertUnwindSafe(call)).err().expect("there is no host");
        panic.downcast::<String>().map_or_else(|_| "no text".into(), |text| *text)
    }

    #[test]
    fn host_function_in_a_unit_test_panics_with_its_name() {
        let (program, args, stdin) = ("p".to_owned(), Vec::new(), Vec::new());
        let command = super::process::Command { program, args, stdin, timeout_ms: None };
        let request = || crate::http::Request::get("https://h");
        for (name, said) in [
            ("attachments::read", panics(|| super::attachments::read("a", 0, 1))),
            ("clock::now", panics(super::clock::now)),
            ("clock::monotonic", panics(super::clock::monotonic)),
            ("outgoing::get", panics(super::outgoing::get)),
            ("process::run", panics(|| super::process::run(&command))),
            ("random::bytes", panics(|| super::random::bytes(1))),
            ("chat::length", panics(crate::chat::length)),
            ("chat::entries", panics(|| crate::chat::entries(0, 1))),
            ("chat::read", panics(|| crate::chat::read(0, 1))),
            ("chat::read", panics(|| crate::chat::message(0))),
            ("chat::find", panics(|| crate::chat::find(1))),
            ("chat::tools", panics(crate::chat::tools)),
            ("kv::get", panics(|| crate::kv::get("k"))),
            ("kv::set", panics(|| crate::kv::set("k", b"v"))),
            ("kv::remove", panics(|| crate::kv::remove("k"))),
            ("kv::compare_and_swap", panics(|| crate::kv::compare_and_swap("k", None, None))),
            ("kv::keys", panics(|| crate::kv::keys("", None))),
            ("http::credentials", panics(crate::http::credentials)),
            ("http::Request::send", panics(|| request().send())),
            ("http::Request::upload", panics(|| request().upload())),
        ] {
            assert!(said.starts_with(&format!("shelly_plugin::{name} asks the host, and in a unit test")), "{said}");
        }
    }
}
