use std::fmt;

use super::compile_step::CompileStep;

/// A component that a process begins to validate or to compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileStart<'a> {
    /// The id of the plugin.
    pub id: &'a str,
    /// The size of the component in bytes.
    pub bytes: usize,
    /// The last step that is taken with it.
    pub step: CompileStep,
}

/// Follows the processes that validate and compile components, for a person who waits for them.
pub trait CompileObserver: fmt::Debug + Send + Sync {
    /// Notes that a process begins. It has ended when the returned value is dropped, whatever came of it.
    fn begin(&self, start: CompileStart<'_>) -> Box<dyn Send>;
}
