//! Single calls of a plugin outside of any agent, in the sandbox and under the limits of a run: a tool call, a step of an effect,
//! a middleware or a coordinator, a request to a provider.
//!
//! The inputs of steps and requests are fixtures: structs that a person writes in YAML or JSON, in which everything has a
//! default. Results are values; `cli` prints them. `cases` has files of calls with the answers of the host and the expected
//! outcomes.

mod cases;
mod completion_trial;
mod conversation_text;
mod coordinator_step;
mod effect_step;
mod fixture;
mod model_middleware_step;
mod model_query;
mod record;
mod run_middleware_step;
mod step_log;
mod step_outcome;
mod step_trial;
mod tool_middleware_step;
mod tool_trial;

pub use cases::{
    CaseClock, CaseExpectation, CaseFile, CaseHostFixture, CaseMismatch, CaseOutcome, ExpectedChange, ExpectedFault,
    ExpectedHttpRequest, ExpectedLogEntry, ExpectedTexts, HttpExchangeFixture, HttpReplyFixture, ModelAnswerFixture,
    PluginCase, run_case, updated_text,
};
pub use completion_trial::{CompletionTrial, complete};
pub use fixture::{
    Base64Bytes, BytesFixture, CompletionFixture, ContentFixture, CoordinatorFixture, EffectFixture, FaultFixture,
    FaultKind, MediaFixture, MemberFixture, MessageFixture, ModelMiddlewareFixture, OpaqueFixture, PartFixture,
    ReportFixture, RequestFixture, RunFixture, RunMiddlewareFixture, RunOutcomeFixture, StepFixture, TargetFixture,
    ThinkingFixture, ToolCallFixture, ToolChoiceFixture, ToolFixture, ToolMiddlewareFixture, ToolOutcomeFixture,
    ToolResultFixture, UsageFixture, parse_fixture,
};
pub use model_query::{AppModels, StepModels};
pub use record::{TrialFigures, TrialLogEntry, TrialRecord, TrialWatcher};
pub use step_outcome::StepTrial;
pub use step_trial::{step, step_kind};
pub use tool_trial::{ProposedChanges, ToolTrial, call_tool};
