//! Skills: procedures in folders. Each folder holds a `SKILL.md` and the files that it refers to.
//!
//! A skill with a description is listed in the prompt, and the model loads it on demand ([`LoadSkill`]); one without a
//! description is part of the system prompt.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use crate::{
    chat::{PropertyNames, ToolCall, ToolHints, ToolSpec},
    error::{ErrorKind, Fault, Report, acts_on_terminal},
    files::{self, FileReadError},
    limits,
    tool::{Tool, ToolConcurrency, ToolCx, ToolOutput},
};

/// The name of the file that makes a folder a skill.
pub const FILE: &str = "SKILL.md";

/// A procedure that an agent can follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name from the front matter, or the folder's name.
    pub name: String,
    /// The situation in which to use it, on one line; if empty, the skill is part of the system prompt.
    pub description: String,
    /// The text of `SKILL.md` after the front matter.
    pub content: String,
    /// The folder, absolute and without links.
    pub dir: PathBuf,
}

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
    /// Two skills of one directory have the same name.
    #[error("two skills have the name `{name}`")]
    Twice { name: String, first: PathBuf, second: PathBuf },
    /// There are more than [`limits::SKILLS`] skills.
    #[error("{} has more than {} skills", dir.display(), limits::SKILLS)]
    TooMany { dir: PathBuf },
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
            Self::Twice { first, second, .. } => report
                .cause(format!("{} and {}", first.display(), second.display()))
                .hint("change the `name` of one of them"),
            Self::TooMany { .. } => report.hint("remove skills that no agent uses"),
            Self::TooMuchInline { .. } => {
                report.hint("give the longer skills a `description`, so that agents load them on demand")
            }
        }
    }
}

/// The front matter. Unknown keys are ignored, since skills of other tools have more.
#[derive(Default, Deserialize)]
struct SkillFrontMatter {
    name: Option<String>,
    description: Option<String>,
}

impl Skill {
    /// Reads the skill in a folder.
    ///
    /// # Errors
    ///
    /// [`SkillError`] with the file and the position in it; also if `SKILL.md` is a link out of the folder.
    pub fn load(folder: &Path) -> Result<Self, SkillError> {
        Self::load_inside(folder, folder)
    }

    /// Reads the skill in a folder; links may not lead out of `inside`.
    fn load_inside(folder: &Path, inside: &Path) -> Result<Self, SkillError> {
        let path = folder.join(FILE);
        let unreadable = |error: FileReadError| match error {
            FileReadError::TooLarge(most) => SkillError::TooLarge { path: path.clone(), most },
            error => SkillError::Unreadable { path: path.clone(), reason: error.to_string() },
        };
        let text = files::read(&path, inside, limits::SKILL_BYTES).map_err(unreadable)?;
        let dir = folder.canonicalize().map_err(|error| unreadable(error.into()))?;
        let (head, body) = match files::front_matter(&text) {
            Some((head, body)) => (parse(head, &path)?, body),
            None => (SkillFrontMatter::default(), &*text),
        };
        let of_folder = || dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = head.name.map_or_else(of_folder, |name| name.trim().to_owned());
        let is_name = (1..=limits::SKILL_NAME_CHARS).contains(&name.chars().count());
        if !is_name || name.contains(acts_on_terminal) {
            return Err(SkillError::Name { path, name });
        }
        let description = head.description.unwrap_or_default();
        let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
        let chars = description.chars().count();
        if chars > limits::SKILL_DESCRIPTION_CHARS {
            return Err(SkillError::Description { path, chars });
        }
        Ok(Self { name, description, content: body.trim().to_owned(), dir })
    }

    /// Returns `true` if the skill is part of the system prompt, since it has no description by which a model could choose
    /// it.
    pub fn is_inline(&self) -> bool {
        self.description.is_empty()
    }

    /// Returns the result of `load_skill`: the content, and the location of the skill's files in the project. A folder
    /// outside the project is not named.
    pub fn document(&self, project_root: &Path) -> String {
        let root = project_root.canonicalize().unwrap_or_else(|_| project_root.to_owned());
        let Ok(below) = self.dir.strip_prefix(root) else { return self.content.clone() };
        let names = below.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_string_lossy()),
            _ => None,
        });
        let folder = match names.collect::<Vec<_>>().join("/") {
            root if root.is_empty() => ".".to_owned(),
            folder => folder,
        };
        format!("{}\n\n---\nFiles that this skill names are in `{folder}`, below the project's root.", self.content)
    }
}

/// Reads the skills of a directory, sorted by name: each folder that has a `SKILL.md` and is not hidden. A missing directory
/// has no skills.
///
/// ```
/// use std::{fs, sync::Arc};
/// use shelly_core::{agent::Agent, model::ScriptedCompleter, skill};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let project = tempfile::tempdir()?;
/// # let project = project.path();
/// let skills = project.join(".shelly/skills");
/// fs::create_dir_all(skills.join("release-notes"))?;
/// fs::write(
///     skills.join("release-notes/SKILL.md"),
///     "---\ndescription: How release notes are written.\n---\nShort, in plain words.\n",
/// )?;
/// let model = Arc::new(ScriptedCompleter::new([]));
/// let lead = Agent::new("lead", "Lead the project.", model).with_skills(skill::load_dir(&skills)?, project);
/// // It has a description: the agent loads it when it needs it.
/// assert!(lead.tools.contains("load_skill"));
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// [`SkillError`] if a skill cannot be read, two have the same name, or there are too many.
pub fn load_dir(dir: &Path) -> Result<Vec<Skill>, SkillError> {
    let unreadable = |error: std::io::Error| SkillError::Unreadable {
        path: dir.into(),
        reason: FileReadError::Io(error).to_string(),
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if is_hidden || fs::symlink_metadata(entry.path().join(FILE)).is_err() {
            continue;
        }
        if folders.len() == limits::SKILLS {
            return Err(SkillError::TooMany { dir: dir.into() });
        }
        folders.push(entry.path());
    }
    folders.sort();
    let mut skills =
        folders.iter().map(|folder| Skill::load_inside(folder, dir)).collect::<Result<Vec<_>, SkillError>>()?;
    skills.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some([first, second]) = skills.array_windows().find(|[first, second]| first.name == second.name) {
        let (name, first, second) = (first.name.clone(), first.dir.clone(), second.dir.clone());
        return Err(SkillError::Twice { name, first, second });
    }
    let bytes = skills.iter().filter(|skill| skill.is_inline()).map(|skill| skill.content.len()).sum();
    if bytes > limits::INLINE_SKILLS_BYTES {
        return Err(SkillError::TooMuchInline { dir: dir.into(), bytes });
    }
    Ok(skills)
}

fn parse(head: &str, path: &Path) -> Result<SkillFrontMatter, SkillError> {
    if head.trim().is_empty() {
        return Ok(SkillFrontMatter::default());
    }
    serde_saphyr::from_str::<Option<SkillFrontMatter>>(head).map(Option::unwrap_or_default).map_err(|error| {
        // One line above it is `---`.
        let line = error.location().map_or(1, |at| at.line() + 1);
        let text = error.without_snippet().to_string();
        let first = text.lines().next().unwrap_or_default();
        let message = first.rsplit_once(" at line ").map_or(first, |(cause, _)| cause).to_owned();
        SkillError::FrontMatter { path: path.into(), line, message }
    })
}

/// The tool `load_skill`, which returns the text of the named skill.
pub struct LoadSkill {
    spec: Arc<ToolSpec>,
    documents: BTreeMap<String, String>,
}

impl LoadSkill {
    /// The tool's name.
    pub const NAME: &str = "load_skill";

    /// Creates the tool for those skills that have a description; returns `None` if there are none.
    pub fn new<'a>(skills: impl IntoIterator<Item = &'a Skill>, project_root: &Path) -> Option<Self> {
        let on_demand = skills.into_iter().filter(|skill| !skill.is_inline());
        let documents: BTreeMap<_, _> =
            on_demand.map(|skill| (skill.name.clone(), skill.document(project_root))).collect();
        if documents.is_empty() {
            return None;
        }
        let schema = json!({
            "type": "object",
            "properties": {"name": {
                "type": "string",
                "enum": documents.keys().collect::<Vec<_>>(),
                "description": "The skill's name.",
            }},
            "required": ["name"],
            "additionalProperties": false,
        });
        let spec = ToolSpec {
            name: Self::NAME.into(),
            description:
                "Returns the full text of a skill: the procedure to follow for one kind of task. Load it before \
                          you begin such a task."
                    .into(),
            input_schema: serde_json::value::to_raw_value(&schema).expect("a JSON value").into(),
            hints: ToolHints { read_only: true, non_destructive: true, idempotent: true, closed_world: true },
            property_names: PropertyNames::default(),
        };
        Some(Self { spec: Arc::new(spec), documents })
    }
}

#[derive(Deserialize)]
struct LoadSkillArgs {
    name: String,
}

#[async_trait]
impl Tool for LoadSkill {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// The texts were read when the agent was created.
    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::Independent
    }

    /// The whole skill fits: half of a procedure is worse than none.
    fn result_chars(&self) -> usize {
        limits::SKILL_BYTES as usize
    }

    async fn call(&self, _: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let names = || self.documents.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let LoadSkillArgs { name } = serde_json::from_str(&call.arguments).map_err(|error| {
            Fault::invalid(format!("invalid arguments; pass the `name` of a skill, one of {}: {error}", names()))
        })?;
        let document = self.documents.get(name.trim()).ok_or_else(|| {
            let name: String = name.chars().take(limits::SKILL_NAME_CHARS).collect();
            Fault::NotFound {
                message: format!("unknown skill `{}`; available skills: {}", name.escape_debug(), names()),
            }
        })?;
        Ok(document.clone().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chat::Chat, event::RunCx};

    fn write(dir: &Path, folder: &str, text: impl AsRef<[u8]>) {
        fs::create_dir_all(dir.join(folder)).unwrap();
        fs::write(dir.join(folder).join(FILE), text).unwrap();
    }

    fn load(text: impl AsRef<[u8]>) -> Result<Skill, SkillError> {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "review", text);
        Skill::load(&dir.path().join("review"))
    }

    #[test]
    fn skill_front_matter_variants_are_read() {
        for (text, expected) in [
            ("Do it.\n", ("review", "", "Do it.")),
            ("---\ndescription: When asked.\n---\nDo it.\n", ("review", "When asked.", "Do it.")),
            ("---\r\nname: code review\r\ndescription: d\r\n---\r\n\r\nDo it.\r\n", ("code review", "d", "Do it.")),
            ("---\nname: r\nallowed-tools: [a, b]\nmetadata: {x: 1}\n---\nDo it.", ("r", "", "Do it.")),
            ("---\ndescription: >\n  one\n  two\n---\n", ("review", "one two", "")),
            ("---\ndescription: never closed\n", ("review", "", "---\ndescription: never closed")),
            ("---\n---\nDo it.", ("review", "", "Do it.")),
            ("---\n# nothing\n---\nDo it.", ("review", "", "Do it.")),
            ("---\ndescription:\n---\nDo it.", ("review", "", "Do it.")),
            ("", ("review", "", "")),
        ] {
            let skill = load(text).unwrap_or_else(|error| panic!("{text:?}: {}", error.report()));
            assert_eq!((&*skill.name, &*skill.description, &*skill.content), expected, "{text:?}");
            assert_eq!(skill.is_inline(), expected.1.is_empty());
        }
    }

    #[test]
    fn skill_errors_are_explained() {
        let long = "x".repeat(limits::SKILL_DESCRIPTION_CHARS + 1);
        for (text, expected) in [
            ("---\nname: a\ndescription: [\n---\n".to_owned(), "line "),
            ("---\nname: a\ndescription: {a: b}\n---\n".to_owned(), "SKILL.md, line 3"),
            ("---\nname: ''\n---\n".to_owned(), "invalid name"),
            ("---\nname: \"a\\nb\"\n---\n".to_owned(), "invalid name"),
            (format!("---\nname: {}\n---\n", &long[..=limits::SKILL_NAME_CHARS]), "invalid name"),
            (format!("---\ndescription: {long}\n---\n"), "has 2049 characters, the maximum is 2048"),
            ("x".repeat(limits::SKILL_BYTES as usize + 1), "more than 65536 bytes"),
        ] {
            let report = load(&text).unwrap_err().report();
            assert!(report.message.contains(expected), "{report} should say {expected}");
            assert!(report.hint.is_some());
        }
        let report = load(b"a\n\xff").unwrap_err().report();
        assert!(report.to_string().contains("not UTF-8 text from line 2 on"), "{report}");
        load("x".repeat(limits::SKILL_BYTES as usize)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Skill::load(dir.path()), Err(SkillError::Unreadable { .. })));
    }

    #[test]
    fn a_directory_is_read_by_name() {
        let dir = tempfile::tempdir().unwrap();
        assert!(load_dir(&dir.path().join("none")).unwrap().is_empty());
        write(dir.path(), "b", "B");
        write(dir.path(), "z", "---\nname: a\n---\nA");
        write(dir.path(), ".hidden", "H");
        fs::create_dir(dir.path().join("empty")).unwrap();
        fs::write(dir.path().join("README.md"), "no skill").unwrap();
        let names = |skills: Vec<Skill>| skills.into_iter().map(|skill| skill.name).collect::<Vec<_>>();
        assert_eq!(names(load_dir(dir.path()).unwrap()), ["a", "b"]);
        write(dir.path(), "a", "also a");
        assert!(matches!(load_dir(dir.path()), Err(SkillError::Twice { name, .. }) if name == "a"));
        assert!(load_dir(&dir.path().join("README.md")).is_err());
    }

    #[test]
    fn a_directory_has_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(limits::SKILL_BYTES as usize);
        for folder in ["a", "b", "c"] {
            assert!(load_dir(dir.path()).is_ok(), "{folder}");
            write(dir.path(), folder, &long);
        }
        assert!(matches!(load_dir(dir.path()), Err(SkillError::TooMuchInline { bytes, .. }) if bytes == 3 << 16));
        let dir = tempfile::tempdir().unwrap();
        for number in 0..limits::SKILLS {
            write(dir.path(), &number.to_string(), "x");
        }
        assert_eq!(load_dir(dir.path()).unwrap().len(), limits::SKILLS);
        write(dir.path(), "more", "x");
        assert!(matches!(load_dir(dir.path()), Err(SkillError::TooMany { .. })));
    }

    #[test]
    #[cfg(unix)]
    fn links_out_of_the_directory_are_not_followed() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("skills");
        write(outer.path(), "elsewhere", "secret");
        write(&dir, "own", "x");
        std::os::unix::fs::symlink(dir.join("own"), dir.join("same")).unwrap();
        // The name is that of the folder to which the link leads.
        assert!(matches!(load_dir(&dir), Err(SkillError::Twice { .. })));
        fs::remove_file(dir.join("same")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", dir.join("linked")).unwrap();
        let error = load_dir(&dir).unwrap_err().report();
        assert!(error.to_string().contains("the link leads out of"), "{error}");
        fs::remove_file(dir.join("linked")).unwrap();
        fs::remove_file(dir.join("own").join(FILE)).unwrap();
        std::os::unix::fs::symlink("../../elsewhere/SKILL.md", dir.join("own").join(FILE)).unwrap();
        assert!(load_dir(&dir).is_err());
    }

    #[tokio::test]
    async fn load_skill_returns_listed_skills() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(".shelly/skills");
        write(&dir, "inline", "always there");
        assert!(LoadSkill::new(&load_dir(&dir).unwrap(), root.path()).is_none());
        write(&dir, "review", "---\ndescription: For diffs.\n---\nRead, then judge.");
        let skills = load_dir(&dir).unwrap();
        let tool = LoadSkill::new(&skills, root.path()).unwrap();
        let schema: serde_json::Value = serde_json::from_str(tool.spec().input_schema.get()).unwrap();
        assert_eq!(schema["properties"]["name"]["enum"], json!(["review"]));

        let cx = ToolCx { chat: Chat::new().snapshot(), ..ToolCx::new(RunCx::new("a")) };
        let call = |arguments: &str| ToolCall {
            id: "1".into(),
            name: LoadSkill::NAME.into(),
            arguments: arguments.into(),
            meta: Vec::new(),
        };
        let text = "Read, then judge.\n\n---\nFiles that this skill names are in `.shelly/skills/review`, below the \
                    project's root.";
        assert_eq!(tool.call(&cx, &call(r#"{"name": "review"}"#)).await, Ok(text.into()));
        for (arguments, expected) in [
            (r#"{"name": "inline"}"#, "unknown skill `inline`; available skills: review"),
            (r#"{"nam": "review"}"#, "invalid arguments; pass the `name` of a skill, one of review: "),
        ] {
            let fault = tool.call(&cx, &call(arguments)).await.unwrap_err().to_string();
            assert!(fault.starts_with(expected), "{fault}");
        }
        let elsewhere = tempfile::tempdir().unwrap();
        assert_eq!(skills[1].document(elsewhere.path()), "Read, then judge.", "no absolute path");
    }
}
