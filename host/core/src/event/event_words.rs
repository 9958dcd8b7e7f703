//! The closed sets of words in events: kinds of changes, actions, functions and outcomes.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// The kind of a change of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    /// A file comes into being.
    Create,
    /// The content of a file changes.
    Edit,
    /// A file or folder is removed.
    Remove,
    /// A file or folder is moved.
    Move,
    /// A file or folder is copied.
    Copy,
    /// A folder comes into being.
    MakeFolder,
}

impl FileChangeKind {
    /// Returns the word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Edit => "edit",
            Self::Remove => "remove",
            Self::Move => "move",
            Self::Copy => "copy",
            Self::MakeFolder => "make-folder",
        }
    }
}

/// The kind of an edit that an effect makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectEditKind {
    /// A note is added to the conversation.
    Note,
    /// The result of a tool call is replaced.
    ReplaceResult,
    /// A range of messages is replaced.
    Replace,
    /// Tools are hidden from the model until the next turn.
    HideTools,
    /// The run ends.
    Stop,
    /// An edit of a later version of the contract.
    Unknown,
}

impl EffectEditKind {
    /// Returns the word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::ReplaceResult => "replace-result",
            Self::Replace => "replace",
            Self::HideTools => "hide-tools",
            Self::Stop => "stop",
            Self::Unknown => "unknown",
        }
    }
}

/// The action of a middleware that does not let something pass unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MiddlewareAction {
    /// It answers itself, in place of the run, the model or the tool.
    Answer,
    /// It rejects the input of a run.
    RejectInput,
    /// It replaces the input of a run.
    ReplaceInput,
    /// It rejects the answer of a run.
    Reject,
    /// It replaces the answer of a run.
    Replace,
    /// It rejects a request to a model.
    RejectRequest,
    /// It replaces a request to a model.
    ReplaceRequest,
    /// It sends a request to another model.
    Route,
    /// It rejects the reply of a model.
    RejectReply,
    /// It replaces the reply of a model.
    ReplaceReply,
    /// It has a run or a request attempted again.
    Retry,
    /// It denies a tool call.
    Deny,
    /// It changes the arguments of a tool call.
    ChangeArguments,
    /// It replaces the result of a tool call.
    ReplaceResult,
}

impl MiddlewareAction {
    /// Returns the word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::RejectInput => "reject-input",
            Self::ReplaceInput => "replace-input",
            Self::Reject => "reject",
            Self::Replace => "replace",
            Self::RejectRequest => "reject-request",
            Self::ReplaceRequest => "replace-request",
            Self::Route => "route",
            Self::RejectReply => "reject-reply",
            Self::ReplaceReply => "replace-reply",
            Self::Retry => "retry",
            Self::Deny => "deny",
            Self::ChangeArguments => "change-arguments",
            Self::ReplaceResult => "replace-result",
        }
    }
}

/// An exported function of a plugin, as the host calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CalledFunction {
    /// The first call of a plugin, which lists its tools.
    Probe,
    /// A tool.
    #[serde(rename = "tool.call")]
    ToolCall,
    /// An exported function that is offered as a tool.
    #[serde(rename = "functions.call")]
    FunctionsCall,
    /// An effect.
    #[serde(rename = "effect.eval")]
    EffectEval,
    /// A run middleware, before the run.
    #[serde(rename = "run-middleware.before")]
    RunMiddlewareBefore,
    /// A run middleware, after the run.
    #[serde(rename = "run-middleware.after")]
    RunMiddlewareAfter,
    /// A model middleware, before the request.
    #[serde(rename = "model-middleware.before")]
    ModelMiddlewareBefore,
    /// A model middleware, after the reply.
    #[serde(rename = "model-middleware.after")]
    ModelMiddlewareAfter,
    /// A tool middleware, before the call.
    #[serde(rename = "tool-middleware.before")]
    ToolMiddlewareBefore,
    /// A tool middleware, after the call.
    #[serde(rename = "tool-middleware.after")]
    ToolMiddlewareAfter,
    /// A model.
    #[serde(rename = "provider.complete")]
    ProviderComplete,
    /// A coordinator of a team.
    #[serde(rename = "coordinator.next")]
    CoordinatorNext,
}

impl CalledFunction {
    /// Returns the name of the function in the contract, after the name of its interface.
    pub fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::ToolCall => "tool.call",
            Self::FunctionsCall => "functions.call",
            Self::EffectEval => "effect.eval",
            Self::RunMiddlewareBefore => "run-middleware.before",
            Self::RunMiddlewareAfter => "run-middleware.after",
            Self::ModelMiddlewareBefore => "model-middleware.before",
            Self::ModelMiddlewareAfter => "model-middleware.after",
            Self::ToolMiddlewareBefore => "tool-middleware.before",
            Self::ToolMiddlewareAfter => "tool-middleware.after",
            Self::ProviderComplete => "provider.complete",
            Self::CoordinatorNext => "coordinator.next",
        }
    }
}

/// The outcome of a call of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PluginCallOutcome {
    /// The plugin has returned a value.
    Ok,
    /// The plugin has returned an error.
    Error,
    /// The plugin has crashed.
    Trap,
    /// The plugin has exceeded a limit.
    Limit,
    /// The plugin took too long.
    Timeout,
}

impl PluginCallOutcome {
    /// Returns the word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Trap => "trap",
            Self::Limit => "limit",
            Self::Timeout => "timeout",
        }
    }

    /// Returns `true` if the plugin did not survive the call.
    pub fn is_crash(self) -> bool {
        matches!(self, Self::Trap | Self::Limit | Self::Timeout)
    }
}

/// The outcome of an HTTP request of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PluginRequestOutcome {
    /// The head of a response has arrived.
    Answered,
    /// The host has refused the request.
    Refused,
    /// There is no response.
    Failed,
}

impl PluginRequestOutcome {
    /// Returns the word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// The decision about a question of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionDecision {
    /// Permitted, this time.
    Yes,
    /// Permitted from now on.
    Trust,
    /// Not permitted.
    No,
    /// Answered with a text or a choice.
    Answered,
    /// Not answered on purpose.
    Declined,
    /// Nobody is there to answer.
    Nobody,
}

impl QuestionDecision {
    /// Returns the word for people, which is also that of the journal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Trust => "trust",
            Self::No => "no",
            Self::Answered => "answered",
            Self::Declined => "declined",
            Self::Nobody => "nobody",
        }
    }
}

macro_rules! shown_by_name {
    ($($words:ident),*) => {
        $(impl fmt::Display for $words {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        })*
    };
}

shown_by_name!(
    FileChangeKind,
    EffectEditKind,
    MiddlewareAction,
    CalledFunction,
    PluginCallOutcome,
    PluginRequestOutcome,
    QuestionDecision
);

#[cfg(test)]
mod tests {
    use serde_json::{Value, to_value};

    use super::*;

    #[test]
    fn words_for_people_are_those_of_events() {
        let all: [(Value, &str); 7] = [
            (to_value(FileChangeKind::MakeFolder).unwrap(), FileChangeKind::MakeFolder.name()),
            (to_value(EffectEditKind::ReplaceResult).unwrap(), EffectEditKind::ReplaceResult.name()),
            (to_value(MiddlewareAction::ChangeArguments).unwrap(), MiddlewareAction::ChangeArguments.name()),
            (to_value(CalledFunction::Probe).unwrap(), CalledFunction::Probe.name()),
            (to_value(PluginCallOutcome::Timeout).unwrap(), PluginCallOutcome::Timeout.name()),
            (to_value(PluginRequestOutcome::Answered).unwrap(), PluginRequestOutcome::Answered.name()),
            (to_value(QuestionDecision::Nobody).unwrap(), QuestionDecision::Nobody.name()),
        ];
        for (word, name) in all {
            assert_eq!(word, name.replace('-', "_"));
        }
        for function in [CalledFunction::ToolCall, CalledFunction::RunMiddlewareAfter, CalledFunction::CoordinatorNext]
        {
            assert_eq!(to_value(function).unwrap(), function.name());
        }
    }
}
