//! Triggers at work: they start hosted runs when a time comes, a webhook arrives or files change.
//!
//! - `trigger_host.rs` holds the triggers and starts their runs.
//! - `served_trigger.rs` is one trigger with its state.
//! - `trigger_waits.rs` waits for times and changes. `trigger_memory.rs` keeps the last times over restarts, and
//!   `file_watch.rs` compares snapshots of files.
//! - `delivery_log.rs` remembers webhooks, over restarts too.
//! - `trial_firing.rs` makes the task of a firing without a server.

mod delivery_log;
mod file_watch;
mod served_trigger;
#[cfg(test)]
mod tests;
mod trial_firing;
mod trigger_host;
mod trigger_memory;
mod trigger_waits;

pub use served_trigger::{TriggerFiring, TriggerSnapshot};
pub use trial_firing::{TrialFiring, TrialPayload};
pub use trigger_host::{FiringOutcome, HookOutcome, TriggerClock, TriggerHost};
