//! The functions that the host provides to a plugin. `log` and the params are always available, the others if they were
//! granted. A plugin imports only the functions that it calls.
//!
//! In unit tests on the developer's machine a [`testing::Host`](crate::testing::Host) answers. Without one, log entries go
//! to standard error, params are `{}`, and progress is dropped. All other functions panic with their name, so that one
//! test fails and the others continue. Pieces of a reply are kept for the test.

use serde::de::DeserializeOwned;

use crate::{host, types::Error};

/// Defines functions of the host.
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
                host::$module::$name($($arg),*)
            })*
        }
    };
}

of_host! {
    /// The bytes of a `Source::Attachment`. Always available to providers.
    attachments {
        /// Returns at most `max` bytes from `offset`: fewer at the end, none beyond it. Bound: 1 MiB a call.
        read(id: &str, offset: u64, max: u32) -> Result<Vec<u8>, Error>;
    }
}

of_host! {
    /// The current time. A plugin asks for it with `clock = true` in `[wants]`.
    clock {
        /// Returns the milliseconds since 1970-01-01T00:00Z.
        now() -> u64;
        /// Returns the nanoseconds since some moment before the call. The value never decreases.
        monotonic() -> u64;
    }
}

of_host! {
    /// The request that a call of a model middleware handles. Always available to model middlewares.
    outgoing {
        /// Returns the whole request, as the earlier middlewares left it. This copies the conversation. Without the power
        /// `see-messages` the messages have no parts.
        get() -> Request;
    }
}

of_host! {
    /// Programs that the grant lists, each run in a folder of its own. A plugin asks for it with `programs = true` in
    /// `[wants]`.
    process {
        /// Runs a program to its end. On cancellation or timeout the host kills all processes that the program started.
        run(command: &Command) -> Result<Output, Error>;
    }
}

of_host! {
    /// Random numbers. A plugin asks for it with `random = true` in `[wants]`.
    random {
        /// Returns random bytes that are suitable for cryptographic keys. Bound: 64 KiB a call.
        bytes(len: u32) -> Vec<u8>;
    }
}

/// Returns the plugin's params for this agent. The error names the field that is wrong.
pub fn config<T: DeserializeOwned>() -> Result<T, Error> {
    crate::json::parse(&host::config::get()).map_err(|cause| Error::Invalid(format!("params: {cause}")))
}

/// The host's log. The macros [`debug!`](crate::debug), [`info!`](crate::info), [`warn!`](crate::warn) and
/// [`error!`](crate::error) are the easiest way to write to it.
pub mod log {
    use super::host;

    #[doc(inline)]
    pub use host::log::Level;

    /// Writes one entry. Bounds: 4 KiB an entry (cut), 1,000 entries a call (then dropped and counted).
    pub fn write(level: Level, message: &str) {
        host::log::write(level, message);
    }
}

/// The progress of a tool call.
pub mod progress {
    use super::host;

    /// Reports that `done` of `total` is finished, in a unit of your choice. `done` only grows; `total` is `None` if the
    /// end is not known.
    pub fn report(done: f64, total: Option<f64>, message: Option<&str>) {
        host::progress::report(done, total, message);
    }
}

/// The pieces of a provider's reply.
pub mod sink {
    use super::host;

    #[doc(inline)]
    pub use host::sink::Delta;

    /// Passes on one piece, and waits while the consumer is behind. Bound: 64 KiB.
    #[cfg(target_arch = "wasm32")]
    pub fn emit(delta: &Delta) {
        host::sink::emit(delta);
    }

    #[cfg(not(target_arch = "wasm32"))]
    thread_local! {
        static EMITTED: std::cell::RefCell<Vec<Delta>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    /// Records one piece for [`emitted`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn emit(delta: &Delta) {
        EMITTED.with_borrow_mut(|emitted| emitted.push(delta.clone()));
    }

    /// Returns the pieces that this thread has emitted since the last call, for unit tests.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn emitted() -> Vec<Delta> {
        EMITTED.take()
    }
}

/// Logs a message for troubleshooting. Takes the arguments of `format!`.
#[macro_export]
macro_rules! debug {
    ($($args:tt)*) => { $crate::log::write($crate::log::Level::Debug, &::std::format!($($args)*)) };
}

/// Logs a normal event. Takes the arguments of `format!`.
#[macro_export]
macro_rules! info {
    ($($args:tt)*) => { $crate::log::write($crate::log::Level::Info, &::std::format!($($args)*)) };
}

/// Logs an unusual event that does not prevent the work. Takes the arguments of `format!`.
#[macro_export]
macro_rules! warn {
    ($($args:tt)*) => { $crate::log::write($crate::log::Level::Warn, &::std::format!($($args)*)) };
}

/// Logs a failure. Takes the arguments of `format!`.
#[macro_export]
macro_rules! error {
    ($($args:tt)*) => { $crate::log::write($crate::log::Level::Error, &::std::format!($($args)*)) };
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Returns the message with which a call panics.
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
            assert!(
                said.starts_with(&format!("shelly_plugin::{name} calls the host, which does not exist in a unit test")),
                "{said}"
            );
        }
    }
}
