//! The tool `load_skill`.

use std::{
    collections::BTreeMap,
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::skill_file::Skill;
use crate::{
    chat::{PropertyNames, ToolCall, ToolHints, ToolSpec},
    error::{Fault, cut},
    files::{self, FileReadError},
    limits,
    tool::{Tool, ToolConcurrency, ToolCx, ToolOutput},
};

/// The tool `load_skill`, which returns the text of the named skill, or a file of its folder.
pub struct LoadSkill {
    spec: Arc<ToolSpec>,
    skills: BTreeMap<String, LoadableSkill>,
}

/// A skill that a model can load.
struct LoadableSkill {
    document: String,
    /// The folder, absolute and without links.
    dir: PathBuf,
}

impl LoadSkill {
    /// The tool's name.
    pub const NAME: &str = "load_skill";

    /// Creates the tool for those skills that have a description; returns `None` if there are none.
    pub fn new<'a>(skills: impl IntoIterator<Item = &'a Skill>, project_root: &Path) -> Option<Self> {
        let on_demand = skills.into_iter().filter(|skill| !skill.is_inline());
        let loadable = |skill: &Skill| LoadableSkill { document: skill.document(project_root), dir: skill.dir.clone() };
        let skills: BTreeMap<_, _> = on_demand.map(|skill| (skill.name.clone(), loadable(skill))).collect();
        if skills.is_empty() {
            return None;
        }
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "enum": skills.keys().collect::<Vec<_>>(),
                    "description": "The skill's name.",
                },
                "file": {
                    "type": "string",
                    "description": "A file that the skill's text names, relative to its folder. Left out: the text.",
                },
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        let spec = ToolSpec {
            name: Self::NAME.into(),
            description:
                "Returns the full text of a skill: the procedure to follow for one kind of task. Load it before \
                          you begin such a task. With `file`, returns a file of the skill instead; nothing is run."
                    .into(),
            input_schema: serde_json::value::to_raw_value(&schema).expect("a JSON value").into(),
            hints: ToolHints { read_only: true, non_destructive: true, idempotent: true, closed_world: true },
            property_names: PropertyNames::default(),
        };
        Some(Self { spec: Arc::new(spec), skills })
    }
}

#[derive(Deserialize)]
struct LoadSkillArgs {
    name: String,
    file: Option<String>,
}

#[async_trait]
impl Tool for LoadSkill {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// The texts were read when the agent was created, and files are only read.
    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::Independent
    }

    /// The whole skill fits: half of a procedure is worse than none.
    fn result_chars(&self) -> usize {
        limits::SKILL_BYTES as usize
    }

    async fn call(&self, _: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let names = || self.skills.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let LoadSkillArgs { name, file } = serde_json::from_str(&call.arguments).map_err(|error| {
            Fault::invalid(format!("invalid arguments; pass the `name` of a skill, one of {}: {error}", names()))
        })?;
        let skill = self.skills.get(name.trim()).ok_or_else(|| {
            let name: String = name.chars().take(limits::SKILL_NAME_CHARS).collect();
            Fault::NotFound {
                message: format!("unknown skill `{}`; available skills: {}", name.escape_debug(), names()),
            }
        })?;
        match file {
            None => Ok(skill.document.clone().into()),
            Some(file) => Ok(skill.read_file(&file).await?.into()),
        }
    }
}

impl LoadableSkill {
    /// Reads a text file of the skill's folder. A path out of the folder, a hidden file and a link out are refused.
    async fn read_file(&self, file: &str) -> Result<String, Fault> {
        let shown = || cut(file, limits::SKILL_PATH_CHARS).escape_debug().to_string();
        let below = below_folder(file).ok_or_else(|| {
            let message = format!(
                "`{}` is not a path of a file below the skill's folder; pass it as the skill names it",
                shown()
            );
            Fault::invalid(message)
        })?;
        let (path, dir) = (self.dir.join(below), self.dir.clone());
        let read = tokio::task::spawn_blocking(move || files::read(&path, &dir, limits::SKILL_FILE_BYTES)).await;
        let read = read.map_err(|_| Fault::other("reading the file crashed"))?;
        read.map_err(|error| match error {
            FileReadError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                Fault::NotFound { message: format!("the skill has no file `{}`", shown()) }
            }
            FileReadError::Outside(_) => {
                Fault::Denied { message: format!("`{}` is a link out of the skill's folder", shown()) }
            }
            error => Fault::invalid(format!("`{}` cannot be read here: {error}", shown())),
        })
    }
}

/// Returns a path below the skill's folder; `None` if it could lead elsewhere, or names a hidden file.
fn below_folder(file: &str) -> Option<PathBuf> {
    let file = file.trim();
    if file.is_empty() || file.chars().count() > limits::SKILL_PATH_CHARS {
        return None;
    }
    let mut below = PathBuf::new();
    for part in Path::new(file).components() {
        match part {
            Component::Normal(name) if !name.as_encoded_bytes().starts_with(b".") => below.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (!below.as_os_str().is_empty()).then_some(below)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{
        super::skill_file::{FILE, load_dir},
        *,
    };
    use crate::{chat::Chat, event::RunCx};

    fn write(dir: &Path, folder: &str, text: impl AsRef<[u8]>) {
        fs::create_dir_all(dir.join(folder)).unwrap();
        fs::write(dir.join(folder).join(FILE), text).unwrap();
    }

    fn cx() -> ToolCx {
        ToolCx { chat: Chat::new().snapshot(), ..ToolCx::new(RunCx::new("a")) }
    }

    fn call(arguments: &str) -> ToolCall {
        ToolCall { id: "1".into(), name: LoadSkill::NAME.into(), arguments: arguments.into(), meta: Vec::new() }
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

        let cx = cx();
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

    #[tokio::test]
    async fn files_of_a_skill_are_read_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "review", "---\ndescription: For diffs.\n---\nRead references/rules.md.");
        let folder = root.path().join("review");
        fs::create_dir(folder.join("references")).unwrap();
        fs::write(folder.join("references/rules.md"), "No tabs.").unwrap();
        fs::write(folder.join(".env"), "KEY=1").unwrap();
        fs::write(folder.join("big"), "x".repeat(limits::SKILL_FILE_BYTES as usize + 1)).unwrap();
        fs::write(root.path().join("secret"), "s").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        let tool = LoadSkill::new(&load_dir(root.path()).unwrap(), root.path()).unwrap();
        let read = async |file: &str| {
            let arguments = json!({"name": "review", "file": file}).to_string();
            tool.call(&cx(), &call(&arguments)).await.map_err(|fault| fault.to_string())
        };
        for file in ["references/rules.md", "./references/rules.md"] {
            assert_eq!(read(file).await, Ok("No tabs.".into()), "{file}");
        }
        let long = "x".repeat(limits::SKILL_PATH_CHARS + 1);
        for (file, expected) in [
            ("../secret", "is not a path of a file below the skill's folder"),
            ("/etc/passwd", "is not a path of a file below"),
            (".env", "is not a path of a file below"),
            ("", "is not a path of a file below"),
            (&*long, "is not a path of a file below"),
            ("references/none.md", "the skill has no file `references/none.md`"),
            ("references", "`references` cannot be read here: expected a file, found a folder"),
            ("big", "`big` cannot be read here: larger than 65536 bytes"),
            #[cfg(unix)]
            ("link", "`link` is a link out of the skill's folder"),
        ] {
            let fault = read(file).await.unwrap_err();
            assert!(fault.contains(expected), "{file}: {fault}");
        }
    }
}
