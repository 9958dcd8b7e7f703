use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

/// A change or a look that a plugin may be trusted with. Looks are for whatever reads a conversation, changes for effects,
/// some of them for what stands around requests to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// Read the text of messages.
    SeeMessages,
    /// Read the arguments of tool calls.
    SeeArguments,
    /// Read what tools said.
    SeeResults,
    /// Add a user message.
    Note,
    /// Change what a tool said.
    EditResults,
    /// Replace or remove messages; around a request to a model, put its own words in place of the request or the reply.
    Rewrite,
    /// Touch the system message.
    SystemPrompt,
    /// Hide tools from the model.
    HideTools,
    /// Offer tools of its own.
    ProvideTools,
    /// Ask a model.
    AskModel,
    /// End the run.
    Stop,
    /// Around a request to a model: answer in its place.
    Answer,
    /// As a tool: propose changes of files in its folders, which the host makes if whoever may say yes does.
    ProposeFiles,
}

impl Power {
    /// Whether it is a look at the conversation, and no change of it.
    pub fn is_look(self) -> bool {
        matches!(self, Self::SeeMessages | Self::SeeArguments | Self::SeeResults)
    }

    /// Whether an effect can use it.
    pub fn is_for_effects(self) -> bool {
        !matches!(self, Self::Answer | Self::ProposeFiles)
    }

    /// Whether a tool can use it.
    pub fn is_for_tools(self) -> bool {
        self.is_look() || self == Self::ProposeFiles
    }

    /// Whether what leads a team can use it.
    pub fn is_for_coordinators(self) -> bool {
        self.is_look() || self == Self::AskModel
    }

    /// Whether what stands around requests to a model can use it.
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

/// Powers, sorted.
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
