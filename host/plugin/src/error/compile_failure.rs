use std::{fmt, time::Duration};

/// The reason why the process that compiles a component gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileFailure {
    /// The process asked for more memory than this, in bytes.
    Memory(u64),
    /// The process used this much processor time.
    Cpu(Duration),
    /// The process took this much wall time.
    Wall(Duration),
    /// The code is longer than this, in bytes.
    Code(usize),
    /// The process crashed, or was killed from outside.
    Ended(String),
    /// The output is not an answer of the protocol.
    Answer,
    /// The process could not be started, or its pipes failed.
    Start(String),
}

impl fmt::Display for CompileFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |time: &Duration| humantime::format_duration(*time);
        match self {
            Self::Memory(bytes) => write!(f, "compiling the component takes more than {} MiB of memory", bytes >> 20),
            Self::Cpu(time) => write!(f, "compiling the component takes more than {} of processor time", shown(time)),
            Self::Wall(time) => write!(f, "compiling the component takes longer than {}", shown(time)),
            Self::Code(bytes) => write!(f, "the component compiles to more than {} MiB of code", bytes >> 20),
            Self::Ended(how) => write!(f, "the process that compiled the component ended with {how}"),
            Self::Answer => f.write_str("the process that compiled the component returned no valid answer"),
            Self::Start(why) => write!(f, "cannot run the process that compiles the component: {why}"),
        }
    }
}

impl CompileFailure {
    /// Returns `true` if the component asked for too much, and would do so again.
    pub(crate) fn is_of_component(&self) -> bool {
        matches!(self, Self::Memory(_) | Self::Cpu(_) | Self::Wall(_) | Self::Code(_))
    }
}
