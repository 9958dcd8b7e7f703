//! Middleware around whole runs.

mod builtin_middleware;
mod middleware_outcome;
mod run_middleware;

pub use builtin_middleware::{
    InputGuardrail, LOGGER_TARGET, LoggingMiddleware, OutputGuardrail, RecoveryMiddleware, TimeoutMiddleware,
};
pub(crate) use middleware_outcome::{
    MiddlewarePauses, RepeatedAttempt, acted, acted_on, stop_if_failed, unless_failed,
};
pub(crate) use run_middleware::may_replace_answers;
pub use run_middleware::{AfterRunDecision, BeforeRunDecision, RunMiddleware, RunOutcome};
