//! What the host lends to a plugin. `log` and the params are always there; the rest as the plugin was granted. A plugin
//! imports only what it calls.
//!
//! On your own machine, where unit tests run, there is no host: log entries go to standard error, params are `{}`,
//! progress goes nowhere, pieces of a reply are kept for the test, and all other imports panic.

use serde::de::DeserializeOwned;

use crate::{bindings::imports::shelly::plugin as host, types::Error};

pub use host::{attachments, clock, outgoing, process, random};

const IN_HOST: bool = cfg!(target_arch = "wasm32");

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
