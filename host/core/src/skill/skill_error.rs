//! The reasons for which skills cannot be used.

use std::path::PathBuf;

use crate::{
    error::{ErrorKind, Report},
    limits,
};

/// The reason for which skills cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum SkillError {
    /// A file or a folder cannot be read.
    #[error("cannot read the skill {}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// `SKILL.md` has more than [`limits::SKILL_BYTES`] bytes.
    #[error("the skill {} has more than {most} bytes", path.display())]
    TooLarge { path: PathBuf, most: u64 },
    /// The text between the `---` lines is not YAML, or a name or a description is not a string.
    #[error("invalid front matter in {}, line {line}", path.display())]
    FrontMatter { path: PathBuf, line: u64, message: String },
    /// The name is empty, too long or not on one line.
    #[error("invalid name of the skill {}", path.display())]
    Name { path: PathBuf, name: String },
    /// The description has more than [`limits::SKILL_DESCRIPTION_CHARS`] characters.
    #[error("the description of the skill {} has {chars} characters, the maximum is {}", path.display(), limits::SKILL_DESCRIPTION_CHARS)]
    Description { path: PathBuf, chars: usize },
    /// A skill that other programs read too does not follow the Agent Skills format.
    #[error("the skill {} does not follow the Agent Skills format: {problem}", path.display())]
    Format { path: PathBuf, problem: String, mend: &'static str },
    /// Two skills of one directory have the same name.
    #[error("two skills have the name `{name}`")]
    Twice { name: String, first: PathBuf, second: PathBuf },
    /// A skill has the name of another one, which has precedence.
    #[error("the skill {} is not used, since {} has the same name", path.display(), by.display())]
    Outranked { path: PathBuf, by: PathBuf },
    /// There are more than [`limits::SKILLS`] skills.
    #[error("{} has more than {} skills", dir.display(), limits::SKILLS)]
    TooMany { dir: PathBuf },
    /// All places together have more than [`limits::SKILLS`] skills.
    #[error("the skill {} is not used, since there are {} others", path.display(), limits::SKILLS)]
    TooManyTogether { path: PathBuf },
    /// The skills without a description have more than [`limits::INLINE_SKILLS_BYTES`] bytes together.
    #[error("the skills without a description in {} have {bytes} bytes in total, the maximum is {}", dir.display(), limits::INLINE_SKILLS_BYTES)]
    TooMuchInline { dir: PathBuf, bytes: usize },
}

impl SkillError {
    /// Returns the error as a report with causes and a hint.
    pub fn report(&self) -> Report {
        let report = Report::new(ErrorKind::Usage, self.to_string());
        match self {
            Self::Unreadable { reason, .. } => report
                .cause(reason)
                .hint("a skill is a folder with a readable SKILL.md in UTF-8; copy it there if it is a link"),
            Self::TooLarge { .. } => {
                report.hint("move parts of it into other files of its folder and name these files in SKILL.md")
            }
            Self::FrontMatter { message, .. } => report.cause(message).hint(
                "write `name: …` and `description: …` between the lines `---`, in quotes if the value has `: ` or `#`",
            ),
            Self::Name { name, .. } => {
                let cause = format!("`{}`", name.escape_debug().take(2 * limits::SKILL_NAME_CHARS).collect::<String>());
                let most = limits::SKILL_NAME_CHARS;
                report.cause(cause).hint(format!("give the skill a `name` of 1 to {most} characters on one line"))
            }
            Self::Description { .. } => report.hint("say in one or two sentences when to use the skill"),
            Self::Format { mend, .. } => report.hint(*mend),
            Self::Twice { first, second, .. } => report
                .cause(format!("{} and {}", first.display(), second.display()))
                .hint("change the `name` of one of them"),
            Self::Outranked { .. } => report.hint("rename or remove one of them if both are to be used"),
            Self::TooMany { .. } | Self::TooManyTogether { .. } => report.hint("remove skills that no agent uses"),
            Self::TooMuchInline { .. } => {
                report.hint("give the longer skills a `description`, so that agents load them on demand")
            }
        }
    }
}
