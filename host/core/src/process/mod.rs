//! Programs that the host runs outside any sandbox. This module therefore controls everything about a run: the program and
//! its location, its arguments, working folder, environment and time limit, and the termination of all processes that it has
//! started.

mod allowed_programs;
mod args_pattern;
mod command_display;
mod known_options;
mod pipe;
mod process_group;
mod program_finder;
mod run;

pub use allowed_programs::{AllowedProgram, AllowedPrograms, ExecContext, ProgramRequest};
pub use args_pattern::{ArgsPattern, ArgsPatternError};
pub use command_display::shown_words;
pub use program_finder::{ProgramFindError, ProgramFinder};
pub use run::{ProcessError, ProcessExit, ProcessOutput, ProcessSlots, ProcessSpec};

pub use pipe::{PipeOutput, PipeOverflow, feed};
pub use process_group::ProcessGroup;
