//! Checks requests against the window of their model.

use crate::{
    agent::outcome::{RunError, WindowExceeded},
    error::Fault,
    model::{CompletionRequest, ModelInfo},
};

/// Refuses a request that is estimated beyond the model's known window.
pub(super) fn check(info: &ModelInfo, request: &CompletionRequest) -> Result<(), RunError> {
    match info.context_window.tokens() {
        Some(window) if request.tokens() > window => {
            Err(RunError::Window(Box::new(WindowExceeded::new(info, request, window, None))))
        }
        _ => Ok(()),
    }
}

/// Turns a fault of a request into a failure of the run. If its message is about the context window, the window is learned
/// from it and the failure is [`RunError::Window`]. `Invalid` and `Other` are examined too: provider plugins do not always
/// use `TooLarge`.
pub(super) fn refused(info: &ModelInfo, request: &CompletionRequest, fault: Fault) -> RunError {
    let (Fault::TooLarge { message } | Fault::Invalid { message } | Fault::Other { message }) = &fault else {
        return RunError::Model(fault);
    };
    match info.context_window.learn(message, request.tokens()) {
        Some(window) => RunError::Window(Box::new(WindowExceeded::new(info, request, window, Some(fault)))),
        None => RunError::Model(fault),
    }
}
