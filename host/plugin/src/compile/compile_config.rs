use std::{path::PathBuf, sync::Arc, time::Duration};

use shelly_core::limits;

use super::compile_observer::CompileObserver;

/// The process in which components are validated and compiled, its limits, and the directory for the results.
#[derive(Debug, Clone, Default)]
pub struct CompileConfig {
    /// The directory for compiled code and for the records of valid components; `None` keeps nothing.
    pub cache: Option<PathBuf>,
    /// The process that validates and compiles.
    pub site: CompileSite,
    /// The limits of one component in a process of its own.
    pub limits: CompileLimits,
    /// The purpose of the code, for which it is compiled fast or runs fast.
    pub profile: CompileProfile,
    /// Follows the processes that validate and compile; `None` if nobody does.
    pub observer: Option<Arc<dyn CompileObserver>>,
}

/// The purpose of compiled code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CompileProfile {
    /// Code that runs fast: it is optimised.
    #[default]
    Release,
    /// Code that is compiled fast, for a plugin that is built again and again. It is not optimised, and functions that have not
    /// changed since the last build of the same project are not compiled again: they are kept beside the compiled code, if
    /// there is a directory for it. A compiler in this process knows no other profile than `Release`.
    Development {
        /// The folder of the project, whose builds share their functions.
        project: PathBuf,
    },
}

/// The process in which components are validated and compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CompileSite {
    /// This process, without any limit, for embedders that trust their components.
    #[default]
    InProcess,
    /// A new process of this very program for each component. The program must begin as `shelly-host` does, with
    /// [`CompileWorker::from_args`](crate::CompileWorker::from_args).
    OwnProgram,
    /// A new process of another program for each component: `shelly-host`, for embedders.
    Program {
        /// The absolute path of the program, which is called with the command [`COMPILE_WORKER`](crate::COMPILE_WORKER).
        path: PathBuf,
    },
}

/// The limits of validating and compiling one component in a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Processor time of all threads together, in whole seconds and at least one.
    pub cpu: Duration,
    /// Wall time from the start of the process to its answer.
    pub wall: Duration,
    /// Bytes of the compiled code.
    pub code_bytes: usize,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            memory_bytes: limits::COMPILE_MEMORY_BYTES,
            cpu: limits::COMPILE_CPU_TIME,
            wall: limits::COMPILE_WALL_TIME,
            code_bytes: limits::COMPILED_BYTES,
        }
    }
}

impl From<Option<PathBuf>> for CompileConfig {
    /// Compiles in this process, and keeps the results in a directory.
    fn from(cache: Option<PathBuf>) -> Self {
        Self { cache, ..Self::default() }
    }
}
