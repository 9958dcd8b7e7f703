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

pub use entry::{AllowedProgram, AllowedPrograms, ExecContext, ProgramRequest};
pub use found::{ProgramFindError, ProgramFinder};
pub use pattern::{ArgsPattern, ArgsPatternError};
pub use run::{ProcessError, ProcessExit, ProcessOutput, ProcessSlots, ProcessSpec};
pub use words::shown_words;

pub(crate) use pipe::{PipeOutput, PipeOverflow, feed};
pub(crate) use started::ProcessGroup;
