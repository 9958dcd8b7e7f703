use std::{borrow::Cow, collections::HashSet, fmt, path::PathBuf, sync::Arc};

use serde::Serialize;

use crate::{error::Fault, limits};

/// Something that a person may have to answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// What is asked.
    pub kind: QuestionKind,
    /// The instance name of the agent that asked first.
    pub from: Arc<str>,
    /// The run that it asked in.
    pub run: Arc<str>,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum QuestionKind {
    /// An agent wants to know something. Same question, same answer.
    Open(OpenQuestion),
    /// An agent wants to do something. Same question: same subject, whatever the details.
    Permission {
        /// What it is about: what can be trusted from now on.
        subject: PermissionSubject,
        /// What exactly it would do this time, at most [`limits::PERMISSION_DETAIL_CHARS`] characters, of changes
        /// [`limits::CHANGE_DETAIL_CHARS`], and a mark.
        detail: String,
    },
}

/// A question in an agent's words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct OpenQuestion {
    /// What is asked, at most [`limits::QUESTION_BYTES`].
    pub text: String,
    /// What it is about, in a word or two; may be empty. At most [`limits::QUESTION_LABEL_BYTES`].
    pub header: String,
    /// What there is to choose from, at most [`limits::QUESTION_OPTIONS`]. Without any the answer is free text; with
    /// them it may be.
    pub options: Vec<QuestionOption>,
    /// Whether more than one may be chosen.
    pub multi_select: bool,
    /// How many may be chosen where several may; without it, all.
    pub max_selections: Option<usize>,
}

/// One of the options of a question.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct QuestionOption {
    /// What is chosen; no two of a question are the same. At most [`limits::QUESTION_LABEL_BYTES`].
    pub label: String,
    /// What choosing it means; may be empty. At most [`limits::OPTION_DESCRIPTION_BYTES`].
    pub description: String,
}

/// What a permission is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PermissionSubject {
    /// Calls of one tool by one agent: another one may have been granted more, and a plugin that was replaced is not what
    /// was looked at.
    Tool {
        /// The agent, by its name in the config: whichever of its instances calls.
        agent: String,
        /// Who made it: a plugin's id, or `host`.
        origin: String,
        /// Its name.
        name: String,
        /// SHA-256 of the plugin's component; empty for a tool of the host.
        digest: String,
    },
    /// Calls about which a middleware asks, as far as it says that they are of one topic. What is trusted of it is forgotten
    /// with the desk: what a topic is, the plugin alone says.
    Topic {
        /// The agent, by its name in the config.
        agent: String,
        /// Who asks: a plugin's id.
        origin: String,
        /// What the answer holds for, in its words.
        topic: String,
        /// SHA-256 of the plugin's component.
        digest: String,
    },
    /// Running a program with whatever arguments, for every agent of the project.
    Program {
        /// Its name, or, of one that is not looked for in the folders of `PATH`, its path.
        name: String,
    },
    /// Reading the project's repository with git, which changes nothing: one yes is for all who wait for it.
    GitReading,
    /// Reading a folder with all below it, by the tools of one agent as long as it works. It is trusted for all agents to
    /// which the config lets a person open folders, and with it the folders below it.
    Folder {
        /// Absolute, without links and `..`.
        path: PathBuf,
    },
    /// Requests to a server, alike.
    Server {
        /// Scheme, host and port, as a URL has them.
        url: String,
    },
    /// Changes of files that one tool of one agent proposes. What is trusted of it is every change that this tool proposes
    /// to this agent, as long as the desk is there, but for those that are [asked about in any
    /// case](crate::builtin::FileChangeTool).
    Change {
        /// The agent, by its name in the config.
        agent: String,
        /// Who made the tool: a plugin's id, or `host`.
        origin: String,
        /// The tool's name.
        name: String,
        /// SHA-256 of the plugin's component; empty for a tool of the host.
        digest: String,
        /// Tells these changes from all others.
        content: String,
        /// Whether they are asked about though such changes are trusted: something about them is remarkable.
        always_asked: bool,
    },
}

/// The answer to an open question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum OpenQuestionAnswer {
    /// In the person's own words, at most [`limits::ANSWER_BYTES`].
    Text(String),
    /// The labels of what was chosen, in the order of the options; at least one.
    Chosen(Vec<String>),
}

/// The answer to a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// This once.
    Yes,
    /// Now and from now on.
    Trust,
    /// No.
    No,
}

impl OpenQuestion {
    /// How many options may be chosen.
    pub fn most_selections(&self) -> usize {
        match self.multi_select {
            true => self.max_selections.unwrap_or(self.options.len()),
            false => 1,
        }
    }

    /// Refuses what cannot be asked.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let too_large = |what: &str, most: usize| {
            Err(Fault::TooLarge { message: format!("{what} has more than {most} bytes: make it shorter") })
        };
        if self.text.trim().is_empty() {
            return Err(Fault::invalid("the question is empty: say what you want to know"));
        }
        if self.text.len() > limits::QUESTION_BYTES {
            return too_large("the question", limits::QUESTION_BYTES);
        }
        if self.header.len() > limits::QUESTION_LABEL_BYTES {
            return too_large("the header", limits::QUESTION_LABEL_BYTES);
        }
        if self.options.len() > limits::QUESTION_OPTIONS {
            let (count, most) = (self.options.len(), limits::QUESTION_OPTIONS);
            return Err(Fault::TooLarge { message: format!("there are {count} options, at most {most} can be asked") });
        }
        let mut labels = HashSet::new();
        for QuestionOption { label, description } in &self.options {
            if label.trim().is_empty() {
                return Err(Fault::invalid("an option has no label: name each"));
            }
            if label.len() > limits::QUESTION_LABEL_BYTES {
                return too_large("the label of an option", limits::QUESTION_LABEL_BYTES);
            }
            if description.len() > limits::OPTION_DESCRIPTION_BYTES {
                return too_large("the description of an option", limits::OPTION_DESCRIPTION_BYTES);
            }
            if !labels.insert(label) {
                return Err(Fault::invalid(format!("two options are called `{label}`: name them differently")));
            }
        }
        match self.max_selections {
            Some(_) if !self.multi_select => {
                Err(Fault::invalid("max_selections is given, but multi_select is not true: set it, or leave both out"))
            }
            Some(most) if !(1..=self.options.len()).contains(&most) => Err(Fault::invalid(format!(
                "max_selections is {most}: it must be at least 1 and at most the number of options, {}",
                self.options.len()
            ))),
            None if self.multi_select && self.options.is_empty() => {
                Err(Fault::invalid("multi_select is true, but there are no options: give some, or leave it out"))
            }
            _ => Ok(()),
        }
    }
}

impl PermissionSubject {
    /// What is trusted where this is: of changes all that the tool proposes.
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

    /// Whether a person is asked though it is trusted.
    pub(super) fn is_always_asked(&self) -> bool {
        matches!(self, Self::Change { always_asked: true, .. })
    }

    /// Characters of the details that a person is shown.
    fn detail_chars(&self) -> usize {
        match self {
            Self::Change { .. } => limits::CHANGE_DETAIL_CHARS,
            _ => limits::PERMISSION_DETAIL_CHARS,
        }
    }

    /// Refuses a name that nobody could read.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let (what, bytes, most) = match self {
            Self::Tool { origin, name, .. }
            | Self::Topic { origin, topic: name, .. }
            | Self::Change { origin, name, .. } => {
                ("a tool", origin.len().max(name.len()), limits::QUESTION_LABEL_BYTES)
            }
            // All of it is shown among the details.
            Self::Folder { path } => ("a folder", path.as_os_str().len(), limits::PERMISSION_DETAIL_CHARS / 2),
            Self::Program { name } => ("a program", name.len(), limits::QUESTION_LABEL_BYTES),
            Self::GitReading => return Ok(()),
            Self::Server { url } => ("a server", url.len(), limits::PERMISSION_DETAIL_CHARS / 2),
        };
        if bytes > most {
            let message = format!("{what} whose name has more than {most} bytes cannot be allowed");
            return Err(Fault::TooLarge { message });
        }
        Ok(())
    }

    /// Whether a yes to one who asks is a yes to all who ask it with them: it does not depend on the details.
    pub(super) fn is_for_all(&self) -> bool {
        matches!(self, Self::GitReading)
    }
}

/// As what is wanted: `call the tool `x` of `y``.
impl fmt::Display for PermissionSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool { origin, name, .. } => write!(f, "call the tool `{name}` of `{origin}`"),
            Self::Topic { origin, topic, .. } => write!(f, "do what `{origin}` asks about: `{topic}`"),
            Self::Program { name } => write!(f, "run the program `{name}`"),
            Self::GitReading => f.write_str("read the project's repository with `git`"),
            Self::Folder { path } => write!(f, "read the folder `{}` with all below it", path.display()),
            Self::Server { url } => write!(f, "send GET and HEAD requests to `{url}`"),
            Self::Change { origin, name, .. } => write!(f, "change files, as `{name}` of `{origin}` proposes"),
        }
    }
}

impl QuestionKind {
    /// Whether one answer serves both: the same words, or the same subject.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Open(one), Self::Open(two)) => one == two,
            (Self::Permission { subject: one, .. }, Self::Permission { subject: two, .. }) => one == two,
            (Self::Open(_), Self::Permission { .. }) | (Self::Permission { .. }, Self::Open(_)) => false,
        }
    }

    /// Whether one yes is for all who ask it.
    pub(super) fn is_for_all(&self) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Permission { subject, .. } => subject.is_for_all(),
        }
    }

    /// The question in a line of at most [`limits::QUESTION_SUMMARY_CHARS`] characters.
    pub(super) fn summary(&self) -> String {
        match self {
            Self::Open(open) => cut(&open.text, limits::QUESTION_SUMMARY_CHARS).0,
            Self::Permission { subject, .. } => cut(&format!("may it {subject}?"), limits::QUESTION_SUMMARY_CHARS).0,
        }
    }
}

/// What a person is shown of the details of a permission.
pub(super) fn shown_detail(subject: &PermissionSubject, detail: &str) -> String {
    match cut(detail, subject.detail_chars()) {
        (whole, 0) => whole,
        (part, beyond) => format!("{part}\n[{beyond} more characters are not shown]"),
    }
}

/// At most `chars` characters of a text, and how many were cut away.
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
    fn what_cannot_be_asked_is_refused() {
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
            (OpenQuestion { options: options(&many), ..plain() }, Some("there are 33 options, at most 32")),
            (OpenQuestion { options: options(&[""]), ..plain() }, Some("an option has no label")),
            (OpenQuestion { options: options(&["a", "a"]), ..plain() }, Some("two options are called `a`")),
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
