//! What a plugin may do for an agent: plain data and its algebra, no I/O.
//!
//! A manifest says what a plugin [wants](Wants), an agent's config what it is [granted](Grant). A plugin gets the meet
//! of both: nothing that it did not ask for, nothing that the agent does not give.
//!
//! What a run may spend is a [`Budget`]; what it has left of it, a [`Purse`].

mod budget;
mod exhausted;
mod money;
mod purse;

use std::{collections::BTreeSet, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

pub use budget::{Bounds, Budget};
pub use exhausted::Exhausted;
pub use money::{NotUsd, Price, Usd};
pub use purse::{Account, Carved, Overshoot, Purse, Share, Spent};

/// How a folder may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Reading alone.
    Read,
    /// Reading and writing.
    Write,
}

/// A folder that a plugin is given.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct FileGrant {
    /// The folder on this machine, absolute.
    pub path: PathBuf,
    /// What the plugin sees it as.
    pub name: String,
    /// How it may be used.
    pub access: Access,
}

/// A change or a look that a plugin may be trusted with. Looks are for whatever reads the chat, changes for effects.
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
    /// Replace or remove messages.
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
}

impl Power {
    /// Whether it is a look at the conversation, and no change of it.
    pub fn is_look(self) -> bool {
        matches!(self, Self::SeeMessages | Self::SeeArguments | Self::SeeResults)
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
        })
    }
}

/// Powers, sorted.
pub type Powers = BTreeSet<Power>;

/// What a plugin's manifest asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Wants {
    /// Folders, and how to use them.
    pub files: Option<Access>,
    /// The time.
    pub clock: bool,
    /// Chance.
    pub random: bool,
    /// The agent's conversation. Effects have it in any case.
    pub chat: bool,
    /// What it sees of the conversation, and what its effect does to it.
    pub powers: Powers,
}

/// What an agent gives a plugin, or what a plugin has got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Grant {
    /// Folders.
    pub files: Vec<FileGrant>,
    /// The time.
    pub clock: bool,
    /// Chance.
    pub random: bool,
    /// The agent's conversation.
    pub chat: bool,
    /// What it may see of the conversation, and what its effect may do to it.
    pub powers: Powers,
}

impl Grant {
    /// What is both given and wanted.
    pub fn meet(&self, wants: &Wants) -> Grant {
        let narrowed = |file: &FileGrant, wanted: Access| FileGrant { access: file.access.min(wanted), ..file.clone() };
        Grant {
            files: wants
                .files
                .map_or_else(Vec::new, |wanted| self.files.iter().map(|file| narrowed(file, wanted)).collect()),
            clock: self.clock && wants.clock,
            random: self.random && wants.random,
            chat: self.chat && wants.chat,
            powers: &self.powers & &wants.powers,
        }
    }

    /// All that is wanted, with `folder` for the files.
    pub fn all_of(wants: &Wants, folder: PathBuf) -> Grant {
        let file = |access| FileGrant { path: folder.clone(), name: ".".into(), access };
        Grant {
            files: wants.files.map(file).into_iter().collect(),
            clock: wants.clock,
            random: wants.random,
            chat: wants.chat,
            powers: wants.powers.clone(),
        }
    }

    /// What is wanted and not given: the capability and the config that would give it.
    pub fn missing(&self, wants: &Wants) -> Vec<Missing> {
        let mut missing = Vec::new();
        // One folder to write in is enough: the others may be meant for reading.
        if let Some(wanted) = wants.files
            && !self.files.iter().any(|file| file.access >= wanted)
        {
            let mode = if wanted == Access::Write { "write" } else { "read" };
            let line = format!("files: [{{path: FOLDER, mode: {mode}}}]");
            missing.push(Missing { capability: "files".into(), line });
        }
        for (name, wanted, given) in
            [("clock", wants.clock, self.clock), ("random", wants.random, self.random), ("chat", wants.chat, self.chat)]
        {
            if wanted && !given {
                missing.push(Missing { capability: name.into(), line: format!("{name}: true") });
            }
        }
        let powers: Vec<_> = (&wants.powers - &self.powers).iter().map(Power::to_string).collect();
        if !powers.is_empty() {
            missing.push(Missing { capability: "powers".into(), line: format!("powers: [{}]", powers.join(", ")) });
        }
        missing
    }

    /// What is given and not wanted, by its names in the config: it has no effect.
    pub fn unwanted(&self, wants: &Wants) -> Vec<String> {
        let mut unwanted = Vec::new();
        for (name, given, wanted) in [
            ("files", !self.files.is_empty(), wants.files.is_some()),
            ("clock", self.clock, wants.clock),
            ("random", self.random, wants.random),
            ("chat", self.chat, wants.chat),
        ] {
            if given && !wanted {
                unwanted.push(name.into());
            }
        }
        let powers: Vec<_> = (&self.powers - &wants.powers).iter().map(Power::to_string).collect();
        if !powers.is_empty() {
            unwanted.push(format!("powers: [{}]", powers.join(", ")));
        }
        unwanted
    }
}

/// A capability that a plugin wants and was not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its name in manifest and config.
    pub capability: String,
    /// The line of config that would give it.
    pub line: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(access: Access) -> FileGrant {
        FileGrant { path: "/data".into(), name: "data".into(), access }
    }

    #[test]
    fn a_plugin_gets_what_it_wants_and_is_given() {
        let given =
            Grant { files: vec![file(Access::Write)], clock: true, powers: [Power::Note].into(), ..Grant::default() };
        let wants = Wants {
            files: Some(Access::Read),
            random: true,
            powers: [Power::Note, Power::Stop].into(),
            ..Wants::default()
        };
        let got = given.meet(&wants);
        assert_eq!(got.files, [file(Access::Read)], "no more than it asked for");
        assert!(!got.clock && !got.random);
        assert_eq!(got.powers, [Power::Note].into());
        let missing: Vec<_> = given.missing(&wants).into_iter().map(|m| m.line).collect();
        assert_eq!(missing, ["random: true", "powers: [stop]"]);
        assert_eq!(Grant::default().meet(&wants), Grant::default());
    }

    #[test]
    fn read_stays_read_where_write_is_wanted() {
        let given = Grant { files: vec![file(Access::Read)], ..Grant::default() };
        let wants = Wants { files: Some(Access::Write), ..Wants::default() };
        assert_eq!(given.meet(&wants).files, [file(Access::Read)]);
        let missing = |files| Grant { files, ..Grant::default() }.missing(&wants).into_iter().map(|m| m.line);
        let line = ["files: [{path: FOLDER, mode: write}]"];
        assert_eq!(missing(vec![]).collect::<Vec<_>>(), line);
        assert_eq!(missing(vec![file(Access::Read)]).collect::<Vec<_>>(), line);
        assert_eq!(missing(vec![file(Access::Read), file(Access::Write)]).count(), 0);
    }

    #[test]
    fn what_is_given_and_not_wanted_is_named() {
        let powers = [Power::Note, Power::Stop].into();
        let given = Grant { files: vec![file(Access::Read)], clock: true, random: true, chat: true, powers };
        let wants = Wants { clock: true, powers: [Power::Note].into(), ..Wants::default() };
        assert_eq!(given.unwanted(&wants), ["files", "random", "chat", "powers: [stop]"]);
        assert_eq!(given.meet(&wants).unwanted(&wants), [""; 0]);
    }

    #[test]
    fn names_of_powers_are_those_of_the_config() {
        for power in [Power::SeeMessages, Power::EditResults, Power::AskModel, Power::Stop] {
            assert_eq!(serde_json::to_value(power).unwrap(), power.to_string());
        }
    }
}
