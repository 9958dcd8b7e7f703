use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    error::{ErrorKind, Report},
    files, limits,
    project::ProjectLayout,
};

/// The place in a command file where the words after the command stand.
const ARGUMENTS: &str = "$ARGUMENTS";

/// The commands of a project: the files `.shelly/commands/*.md`, each of which is a message.
pub struct ProjectCommands {
    folder: PathBuf,
    root: PathBuf,
    names: Vec<String>,
}

impl ProjectCommands {
    /// Lists the commands of the project in the folder `root`, which the person trusts. Names with other characters than
    /// letters, digits, `-` and `_` are left out.
    pub fn of_project(root: &Path) -> Self {
        let folder = ProjectLayout::new(root).commands();
        let mut names: Vec<_> = fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".md")?.to_owned()))
            .filter(|name| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_')))
            .collect();
        names.sort();
        names.truncate(limits::CHAT_COMMAND_FILES);
        Self { folder, root: root.to_owned(), names }
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the message of a command. The words after the command stand where its file has `$ARGUMENTS`, or else at its
    /// end.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the file cannot be read, or is empty.
    pub fn message(&self, name: &str, arguments: &str) -> Result<String, Report> {
        let path = self.folder.join(format!("{name}.md"));
        let cannot = |cause: String| {
            Report::new(ErrorKind::Usage, format!("cannot use the command `/{name}`"))
                .cause(cause)
                .hint(format!("correct the file .shelly/commands/{name}.md"))
        };
        let text = files::read(&path, &self.root, limits::CHAT_COMMAND_FILE_BYTES);
        let text = text.map_err(|error| cannot(error.to_string()))?;
        let text = files::front_matter(&text).map_or(&*text, |(_, body)| body).trim();
        if text.is_empty() {
            return Err(cannot("the file has no text".into()));
        }
        Ok(match (text.contains(ARGUMENTS), arguments.is_empty()) {
            (true, _) => text.replace(ARGUMENTS, arguments),
            (false, true) => text.to_owned(),
            (false, false) => format!("{text}\n\n{arguments}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_files_become_messages() {
        let folder = tempfile::tempdir().unwrap();
        let commands = folder.path().join(".shelly/commands");
        fs::create_dir_all(&commands).unwrap();
        for (name, text) in [
            ("review.md", "---\ndescription: Reviews.\n---\nReview $ARGUMENTS with care.\n"),
            ("tests.md", "Run the tests.\n"),
            ("empty.md", "\n"),
            ("bad name.md", "x"),
            ("notes.txt", "x"),
            ("\u{202e}.md", "x"),
        ] {
            fs::write(commands.join(name), text).unwrap();
        }
        let commands = ProjectCommands::of_project(folder.path());
        assert_eq!(commands.names(), ["empty", "review", "tests"]);
        assert_eq!(commands.message("review", "main.rs").unwrap(), "Review main.rs with care.");
        assert_eq!(commands.message("tests", "").unwrap(), "Run the tests.");
        assert_eq!(commands.message("tests", "of core").unwrap(), "Run the tests.\n\nof core");
        assert!(commands.message("empty", "").unwrap_err().to_string().contains("has no text"));
        assert!(commands.message("none", "").is_err());
    }
}
