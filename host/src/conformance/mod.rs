//! A conformance suite of hostile plugins, which tests the sandbox of this host and of others.
//!
//! An [`AttackSuite`] is a list of [`Attack`]s: components, each with a sentence that says what it tries, its grant, and
//! the expected [`AttackVerdict`]. [`run`] plays each attack in a fixture of its own, in a run of an agent that has secrets
//! and files. It observes the attack from outside: its changes, its output, the time it took. Before and after the attacks
//! that share its process, the suite makes baseline runs and measures the process. An attack with bounds on the host is
//! played in a process of its own, which is measured and ends with it.
//!
//! The format of a suite is described in `docs/conformance.md`.

mod attack;
mod attack_process;
mod attack_run;
mod attack_settings;
mod baseline;
mod embedded;
mod escapes;
mod fixture;
mod guest;
mod link_swapper;
mod observer;
mod play;
mod report;
mod suite;
mod suite_run;

pub use attack::{Attack, AttackVerdict, HostBounds};
pub use attack_process::{HostProgram, play_alone};
pub use baseline::{CALLS_AT_ONCE, RecoveryCheck};
pub use guest::component_of;
pub use observer::EventFormatter;
pub use report::{AttackResult, AttackStatus, ConformanceReport, HostUsage};
pub use suite::AttackSuite;
pub use suite_run::run;
