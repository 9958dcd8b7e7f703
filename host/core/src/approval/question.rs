use std::{borrow::Cow, collections::HashSet, fmt, path::PathBuf, sync::Arc};

use serde::Serialize;

use crate::{error::Fault, event::FileDifference, limits};

/// A question that a person may have to answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// The content of the question.
    pub kind: QuestionKind,
    /// The instance name of the agent that asked first.
    pub from: Arc<str>,
    /// The run in which it asked.
    pub run: Arc<str>,
    /// The file changes that it asks about, for displays that compare texts. They are no part of the JSON.
    #[serde(skip)]
    pub changes: Arc<[FileDifference]>,
}

/// The content of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum QuestionKind {
    /// An agent wants to know something. Questions with the same words share one answer.
    Open(OpenQuestion),
    /// An agent wants to do something. Questions with the same subject share one answer, whatever the details.
    Permission {
        /// The subject, which can be trusted from now on.
        subject: PermissionSubject,
        /// The details of this call, at most [`limits::PERMISSION_DETAIL_CHARS`] characters, of changes
        /// [`limits::CHANGE_DETAIL_CHARS`], and a mark if they were cut.
        detail: String,
    },
}

/// A question in an agent's words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct OpenQuestion {
    /// The text of the question, at most [`limits::QUESTION_BYTES`].
    pub text: String,
    /// The topic in a word or two; may be empty. At most [`limits::QUESTION_LABEL_BYTES`].
    pub header: String,
    /// The options, at most [`limits::QUESTION_OPTIONS`]. Without options the answer is free text; with options it may be
    /// free text too.
    pub options: Vec<QuestionOption>,
    /// `true` if more than one option may be chosen.
    pub multi_select: bool,
    /// The maximum number of chosen options if `multi_select` is set; `None`: all.
    pub max_selections: Option<usize>,
}

/// One of the options of a question.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct QuestionOption {
    /// The label, unique in its question. At most [`limits::QUESTION_LABEL_BYTES`].
    pub label: String,
    /// The meaning of the option; may be empty. At most [`limits::OPTION_DESCRIPTION_BYTES`].
    pub description: String,
}

/// The subject of a permission.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PermissionSubject {
    /// Calls of one tool by one agent. Trust does not extend to another agent, which may have been granted more, nor to
    /// another version of the plugin, which the person has not seen.
    Tool {
        /// The agent's name in the config, for all of its instances.
        agent: String,
        /// The owner of the tool: a plugin's id, or `host`.
        origin: String,
        /// The name of the tool.
        name: String,
        /// SHA-256 of the plugin's component; empty for a tool of the host.
        digest: String,
    },
    /// Calls that a middleware asks about, as far as it says that they have one topic. Trust in a topic is forgotten with
    /// the broker, since the plugin alone says what a topic covers.
    Topic {
        /// The agent's name in the config.
        agent: String,
        /// The plugin that asks, by its id.
        origin: String,
        /// The topic, in the plugin's words.
        topic: String,
        /// SHA-256 of the plugin's component.
        digest: String,
    },
    /// Running a program with any arguments, for every agent of the project.
    Program {
        /// The name of the program; its path, if it is not looked up in the folders of `PATH`.
        name: String,
    },
    /// Reading the project's repository with git, which changes nothing. One yes is for all waiting callers.
    GitReading,
    /// Reading a folder with all below it, by the tools of one agent as long as it runs. Trust extends to all agents whose
    /// config lets a person grant folders, and to the folders below it.
    Folder {
        /// The absolute path, without links and `..`.
        path: PathBuf,
    },
    /// GET and HEAD requests to a server, granted in the same way as a folder.
    Server {
        /// The scheme, host and port, as in a URL.
        url: String,
    },
    /// Changes of files that one tool of one agent proposes. Trust extends to every change that this tool proposes to this
    /// agent, until the broker is dropped, except for changes that `builtin::FileChangeTool` of
    /// `shelly-host` asks about in any case.
    Change {
        /// The agent's name in the config.
        agent: String,
        /// The owner of the tool: a plugin's id, or `host`.
        origin: String,
        /// The tool's name.
        name: String,
        /// SHA-256 of the plugin's component; empty for a tool of the host.
        digest: String,
        /// An identifier of these changes, different from that of all others.
        content: String,
        /// `true` if a person is asked about these changes even if the tool is trusted.
        always_asked: bool,
    },
}

/// The answer to an open question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum OpenQuestionAnswer {
    /// In the person's own words, at most [`limits::ANSWER_BYTES`].
    Text(String),
    /// The labels of the chosen options, in the order of the options; at least one.
    Chosen(Vec<String>),
}

/// The answer to a permission question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Allowed this once.
    Yes,
    /// Allowed now and from now on.
    Trust,
    /// Denied.
    No,
}

impl OpenQuestion {
    /// Returns the maximum number of options that may be chosen.
    pub fn most_selections(&self) -> usize {
        match self.multi_select {
            true => self.max_selections.unwrap_or(self.options.len()),
            false => 1,
        }
    }

    /// Checks that the question can be asked.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let too_large = |what: &str, most: usize| {
            Err(Fault::TooLarge { message: format!("{what} has more than {most} bytes; shorten it") })
        };
        if self.text.trim().is_empty() {
            return Err(Fault::invalid("the question is empty; say what you want to know"));
        }
        if self.text.len() > limits::QUESTION_BYTES {
            return too_large("the question", limits::QUESTION_BYTES);
        }
        if self.header.len() > limits::QUESTION_LABEL_BYTES {
            return too_large("the header", limits::QUESTION_LABEL_BYTES);
        }
        if self.options.len() > limits::QUESTION_OPTIONS {
            let (count, most) = (self.options.len(), limits::QUESTION_OPTIONS);
            return Err(Fault::TooLarge {
                message: format!("the question has {count} options, the maximum is {most}"),
            });
        }
        let mut labels = HashSet::new();
        for QuestionOption { label, description } in &self.options {
            if label.trim().is_empty() {
                return Err(Fault::invalid("an option has no label; give each option a label"));
            }
            if label.len() > limits::QUESTION_LABEL_BYTES {
                return too_large("the label of an option", limits::QUESTION_LABEL_BYTES);
            }
            if description.len() > limits::OPTION_DESCRIPTION_BYTES {
                return too_large("the description of an option", limits::OPTION_DESCRIPTION_BYTES);
            }
            if !labels.insert(label) {
                return Err(Fault::invalid(format!("two options have the label `{label}`; use different labels")));
            }
        }
        match self.max_selections {
            Some(_) if !self.multi_select => Err(Fault::invalid(
                "max_selections is set, but multi_select is not true; set multi_select to true, or leave both out",
            )),
            Some(most) if !(1..=self.options.len()).contains(&most) => Err(Fault::invalid(format!(
                "max_selections is {most}; use 1 to the number of options, {}",
                self.options.len()
            ))),
            None if self.multi_select && self.options.is_empty() => Err(Fault::invalid(
                "multi_select is true, but there are no options; add options, or leave multi_select out",
            )),
            _ => Ok(()),
        }
    }
}

impl PermissionSubject {
    /// Returns the subject that is stored as trusted: for changes, one that stands for all changes of the tool.
    pub(super) fn as_trusted(&self) -> Cow<'_, Self> {
        match self {
            Self::Change { agent, origin, name, digest, .. } => Cow::Owned(Self::Change {
                agent: agent.clone(),
                origin: origin.clone(),
                name: name.clone(),
                digest: digest.clone(),
                content: String::new(),
                always_asked: false,
            }),
            _ => Cow::Borrowed(self),
        }
    }

    /// Returns `true` if a person is asked even if the subject is trusted.
    pub(super) fn is_always_asked(&self) -> bool {
        matches!(self, Self::Change { always_asked: true, .. })
    }

    /// Returns the maximum characters of the details that a person is shown.
    fn detail_chars(&self) -> usize {
        match self {
            Self::Change { .. } => limits::CHANGE_DETAIL_CHARS,
            _ => limits::PERMISSION_DETAIL_CHARS,
        }
    }

    /// Checks that the name is short enough to be read.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let (what, bytes, most) = match self {
            Self::Tool { origin, name, .. }
            | Self::Topic { origin, topic: name, .. }
            | Self::Change { origin, name, .. } => {
                ("a tool", origin.len().max(name.len()), limits::QUESTION_LABEL_BYTES)
            }
            // The whole path is shown among the details.
            Self::Folder { path } => ("a folder", path.as_os_str().len(), limits::PERMISSION_DETAIL_CHARS / 2),
            Self::Program { name } => ("a program", name.len(), limits::QUESTION_LABEL_BYTES),
            Self::GitReading => return Ok(()),
            Self::Server { url } => ("a server", url.len(), limits::PERMISSION_DETAIL_CHARS / 2),
        };
        if bytes > most {
            let message = format!("cannot ask for permission: the name of {what} has more than {most} bytes");
            return Err(Fault::TooLarge { message });
        }
        Ok(())
    }

    /// Returns `true` if a yes does not depend on the details, and so holds for all waiting callers.
    pub(super) fn is_for_all(&self) -> bool {
        matches!(self, Self::GitReading)
    }
}

/// Formats the subject as the action that is asked for: `call the tool `x` of `y``.
impl fmt::Display for PermissionSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool { origin, name, .. } => write!(f, "call the tool `{name}` of `{origin}`"),
            Self::Topic { origin, topic, .. } => write!(f, "do what `{origin}` asks about: `{topic}`"),
            Self::Program { name } => write!(f, "run the program `{name}`"),
            Self::GitReading => f.write_str("read the project's repository with `git`"),
            Self::Folder { path } => write!(f, "read the folder `{}` and everything below it", path.display()),
            Self::Server { url } => write!(f, "send GET and HEAD requests to `{url}`"),
            Self::Change { origin, name, .. } => write!(f, "change files, as `{name}` of `{origin}` proposes"),
        }
    }
}

impl QuestionKind {
    /// Returns `true` if one answer serves both: they have the same words or the same subject.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Open(one), Self::Open(two)) => one == two,
            (Self::Permission { subject: one, .. }, Self::Permission { subject: two, .. }) => one == two,
            (Self::Open(_), Self::Permission { .. }) | (Self::Permission { .. }, Self::Open(_)) => false,
        }
    }

    /// Returns `true` if one yes holds for all waiting callers.
    pub(super) fn is_for_all(&self) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Permission { subject, .. } => subject.is_for_all(),
        }
    }

    /// Returns the question in one line of at most [`limits::QUESTION_SUMMARY_CHARS`] characters.
    pub(super) fn summary(&self) -> String {
        match self {
            Self::Open(open) => cut(&open.text, limits::QUESTION_SUMMARY_CHARS).0,
            Self::Permission { subject, .. } => {
                cut(&format!("may the agent {subject}?"), limits::QUESTION_SUMMARY_CHARS).0
            }
        }
    }
}

/// Returns the details of a permission as a person is shown them.
pub(super) fn shown_detail(subject: &PermissionSubject, detail: &str) -> String {
    match cut(detail, subject.detail_chars()) {
        (whole, 0) => whole,
        (part, beyond) => format!("{part}\n[{beyond} more characters are not shown]"),
    }
}

/// Returns at most `chars` characters of a text, and the number of characters that were cut.
fn cut(text: &str, chars: usize) -> (String, usize) {
    match text.char_indices().nth(chars) {
        Some((end, _)) => (format!("{}…", &text[..end]), text[end..].chars().count()),
        None => (text.to_owned(), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(labels: &[&str]) -> Vec<QuestionOption> {
        labels.iter().map(|label| QuestionOption { label: (*label).into(), description: String::new() }).collect()
    }

    #[test]
    fn invalid_question_is_refused() {
        let plain = || OpenQuestion { text: "which?".into(), options: options(&["a", "b"]), ..OpenQuestion::default() };
        let many: Vec<_> = (0..=limits::QUESTION_OPTIONS).map(|at| at.to_string()).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let long = |most: usize| "x".repeat(most + 1);
        let described = QuestionOption { label: "a".into(), description: long(limits::OPTION_DESCRIPTION_BYTES) };
        for (question, refusal) in [
            (plain(), None),
            (OpenQuestion { text: "x".repeat(limits::QUESTION_BYTES), ..plain() }, None),
            (OpenQuestion { options: options(&many[1..]), ..plain() }, None),
            (OpenQuestion { multi_select: true, max_selections: Some(2), ..plain() }, None),
            (OpenQuestion { text: " \n".into(), ..plain() }, Some("the question is empty")),
            (OpenQuestion { text: long(limits::QUESTION_BYTES), ..plain() }, Some("the question has more than 8192")),
            (OpenQuestion { header: long(limits::QUESTION_LABEL_BYTES), ..plain() }, Some("the header has more")),
            (
                OpenQuestion { options: options(&many), ..plain() },
                Some("the question has 33 options, the maximum is 32"),
            ),
            (OpenQuestion { options: options(&[""]), ..plain() }, Some("an option has no label")),
            (OpenQuestion { options: options(&["a", "a"]), ..plain() }, Some("two options have the label `a`")),
            (
                OpenQuestion { options: options(&[&long(limits::QUESTION_LABEL_BYTES)]), ..plain() },
                Some("the label of an option has more than 256"),
            ),
            (OpenQuestion { options: vec![described], ..plain() }, Some("the description of an option has more")),
            (OpenQuestion { max_selections: Some(1), ..plain() }, Some("multi_select is not true")),
            (OpenQuestion { multi_select: true, max_selections: Some(0), ..plain() }, Some("max_selections is 0")),
            (OpenQuestion { multi_select: true, max_selections: Some(3), ..plain() }, Some("max_selections is 3")),
            (OpenQuestion { multi_select: true, options: vec![], ..plain() }, Some("there are no options")),
        ] {
            let got = question.check().map_err(|fault| fault.to_string());
            let fine = match (&got, refusal) {
                (Ok(()), None) => true,
                (Err(text), Some(refusal)) => text.contains(refusal),
                _ => false,
            };
            assert!(fine, "{refusal:?}: {got:?}");
        }
    }

    #[test]
    fn details_are_cut_at_a_character_and_say_so() {
        let most = limits::PERMISSION_DETAIL_CHARS;
        let [agent, origin, name, digest, content] = [const { String::new() }; 5];
        let change = PermissionSubject::Change { agent, origin, name, digest, content, always_asked: false };
        let [agent, origin, name, digest] = [const { String::new() }; 4];
        let tool = PermissionSubject::Tool { agent, origin, name, digest };
        for (subject, most) in [(tool, most), (change, limits::CHANGE_DETAIL_CHARS)] {
            assert_eq!(shown_detail(&subject, &"é".repeat(most)), "é".repeat(most));
            let cut = format!("{}…\n[7 more characters are not shown]", "é".repeat(most));
            assert_eq!(shown_detail(&subject, &"é".repeat(most + 7)), cut);
        }
        let kind = QuestionKind::Open(OpenQuestion { text: "é".repeat(1_000), ..OpenQuestion::default() });
        assert_eq!(kind.summary().chars().count(), limits::QUESTION_SUMMARY_CHARS + 1);
    }
}
