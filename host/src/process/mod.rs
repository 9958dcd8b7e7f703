//! Programs that the host runs. They run outside of any sandbox, so everything about a run is decided here: which program,
//! found where, with which words, in which folder, with what of the environment, for how long, and that it ends with all
//! that it has started.

mod entry;
mod found;
mod options;
mod pattern;
mod pipe;
mod run;
mod started;
mod words;

pub use entry::{Entry, Ground, Programs, Wish};
pub use found::{FindError, Finder};
pub use pattern::{ArgsPattern, PatternError};
pub use run::{Ended, Exit, Job, Places, RunError};
pub use words::shown_words;

pub(crate) use pipe::{Beyond, Heard, feed};
pub(crate) use started::Process;
