use std::{collections::BTreeSet, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A power that a plugin may be granted over the conversation: to see a part of it, or to change it. The former are for
/// every plugin that reads a conversation, the latter for effects, and some of them for model middleware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// Read the text of messages.
    SeeMessages,
    /// Read the arguments of tool calls.
    SeeArguments,
    /// Read tool results.
    SeeResults,
    /// Add a user message.
    Note,
    /// Change tool results.
    EditResults,
    /// Replace or remove messages; for model middleware, replace the text of the request or the reply.
    Rewrite,
    /// Change the system message.
    SystemPrompt,
    /// Hide tools from the model.
    HideTools,
    /// Offer additional tools.
    ProvideTools,
    /// Ask a model.
    AskModel,
    /// End the run.
    Stop,
    /// For model middleware: answer in the model's place.
    Answer,
    /// For tools: propose file changes in its folders, which the host applies after approval.
    ProposeFiles,
}

impl Power {
    /// Returns `true` if it only shows the conversation and changes nothing.
    pub fn is_look(self) -> bool {
        matches!(self, Self::SeeMessages | Self::SeeArguments | Self::SeeResults)
    }

    /// Returns `true` if an effect can use it.
    pub fn is_for_effects(self) -> bool {
        !matches!(self, Self::Answer | Self::ProposeFiles)
    }

    /// Returns `true` if a tool can use it.
    pub fn is_for_tools(self) -> bool {
        self.is_look() || self == Self::ProposeFiles
    }

    /// Returns `true` if a team coordinator can use it.
    pub fn is_for_coordinators(self) -> bool {
        self.is_look() || self == Self::AskModel
    }

    /// Returns `true` if model middleware can use it.
    pub fn is_for_requests(self) -> bool {
        self.is_look() || matches!(self, Self::Rewrite | Self::Answer)
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SeeMessages => "see-messages",
            Self::SeeArguments => "see-arguments",
            Self::SeeResults => "see-results",
            Self::Note => "note",
            Self::EditResults => "edit-results",
            Self::Rewrite => "rewrite",
            Self::SystemPrompt => "system-prompt",
            Self::HideTools => "hide-tools",
            Self::ProvideTools => "provide-tools",
            Self::AskModel => "ask-model",
            Self::Stop => "stop",
            Self::Answer => "answer",
            Self::ProposeFiles => "propose-files",
        })
    }
}

/// A sorted set of powers.
pub type Powers = BTreeSet<Power>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_powers_are_those_of_the_config() {
        for power in [Power::SeeMessages, Power::EditResults, Power::AskModel, Power::Stop, Power::ProposeFiles] {
            assert_eq!(serde_json::to_value(power).unwrap(), power.to_string());
        }
    }
}
