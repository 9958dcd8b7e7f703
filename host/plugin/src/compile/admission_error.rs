use std::path::PathBuf;

use crate::error::{CompileFailure, ComponentError, PluginError};

/// The reason why a component was not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComponentAdmissionError {
    /// The file is not a valid component.
    Invalid(ComponentError),
    /// The compiler rejects the component.
    Rejected(String),
    /// The compiler process gave no answer.
    NoAnswer(CompileFailure),
}

impl From<CompileFailure> for ComponentAdmissionError {
    fn from(failure: CompileFailure) -> Self {
        Self::NoAnswer(failure)
    }
}

impl ComponentAdmissionError {
    /// Converts to the error of the plugin whose component, at `path`, was refused.
    pub fn of_plugin(self, id: String, path: PathBuf) -> PluginError {
        match self {
            Self::Invalid(source) => PluginError::Component { path, source },
            Self::Rejected(message) => PluginError::NotRunnable { id, message },
            Self::NoAnswer(failure) => PluginError::NotCompiled { id, failure },
        }
    }
}
