//! Completes the names of commands, the words after them, and the paths of files after `@`.

use std::{fs, path::Path};

use super::file_mentions::last_mention;
use crate::limits;

/// The text that Tab inserts.
#[derive(Debug, PartialEq, Eq)]
pub struct InputCompletion {
    /// The bytes before the cursor that it replaces.
    pub replaced: usize,
    pub inserted: String,
    /// The names to choose from, if there is more than one.
    pub proposals: Vec<String>,
}

/// The words that can be completed. They are looked up only if Tab is pressed.
pub struct CompletedWords<'a> {
    /// Returns the names of all commands.
    pub commands: &'a dyn Fn() -> Vec<String>,
    /// Returns the words that may follow the command of this name.
    pub arguments: &'a dyn Fn(&str) -> Vec<String>,
}

/// Returns the completion of the text before the cursor: of a command if the text is nothing else, of the word after it, or of a
/// path below `root` after `@`.
pub fn complete(before_cursor: &str, words: &CompletedWords<'_>, root: &Path) -> Option<InputCompletion> {
    let begins_with = |typed: &str, mut words: Vec<String>| {
        words.retain(|word| word.starts_with(typed));
        words
    };
    if let Some(line) = before_cursor.strip_prefix('/') {
        match line.split_once(char::is_whitespace) {
            None => return among(line, begins_with(line, (words.commands)()), " "),
            Some((command, typed)) if !typed.contains(char::is_whitespace) => {
                let arguments = begins_with(typed, (words.arguments)(command));
                if !arguments.is_empty() {
                    return among(typed, arguments, " ");
                }
            }
            Some(_) => {}
        }
    }
    let path = last_mention(before_cursor)?;
    among(path, paths(path, root), " ")
}

/// Returns the part that all names have in common, followed by `end` if there is only one name and it is no folder.
fn among(typed: &str, mut names: Vec<String>, end: &str) -> Option<InputCompletion> {
    names.sort();
    let (first, last) = (names.first()?, names.last()?);
    // Of sorted names, the first and the last differ most.
    let common = first.char_indices().zip(last.chars()).find(|((_, a), b)| a != b);
    let common = common.map_or(first.len().min(last.len()), |((at, _), _)| at);
    let mut inserted = first[..common].to_owned();
    if names.len() == 1 {
        if !inserted.ends_with('/') {
            inserted.push_str(end);
        }
        names.clear();
    }
    Some(InputCompletion { replaced: typed.len(), inserted, proposals: names })
}

/// Returns the paths below `root` that begin with `typed`; folders end with `/`. Hidden ones are left out unless a dot was
/// typed, and so are names with blanks or control characters.
fn paths(typed: &str, root: &Path) -> Vec<String> {
    let (folder, start) = typed.rsplit_once('/').map_or(("", typed), |(folder, start)| (folder, start));
    let in_folder = match (folder.is_empty(), typed.starts_with('/')) {
        (true, true) => Path::new("/").to_owned(),
        _ => root.join(folder),
    };
    let Ok(entries) = fs::read_dir(in_folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.take(limits::CHAT_COMPLETED_ENTRIES).flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_odd = name.contains(|c: char| c.is_whitespace() || c.is_control());
        if !name.starts_with(start) || (name.starts_with('.') && !start.starts_with('.')) || is_odd {
            continue;
        }
        let mark = if entry.path().is_dir() { "/" } else { "" };
        let before = &typed[..typed.len() - start.len()];
        found.push(format!("{before}{name}{mark}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(text: &str, root: &Path) -> Option<(String, Vec<String>)> {
        let words = CompletedWords {
            commands: &|| ["agent", "agents", "help", "review"].map(str::to_owned).into(),
            arguments: &|command| match command {
                "focus" => ["worker-count-1", "worker-listen-2"].map(str::to_owned).into(),
                _ => Vec::new(),
            },
        };
        let InputCompletion { replaced, inserted, proposals } = complete(text, &words, root)?;
        Some((format!("{}{inserted}", &text[..text.len() - replaced]), proposals))
    }

    #[test]
    fn commands_and_paths_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("src")).unwrap();
        for name in ["src/main.rs", "src/map.rs", "notes.md", ".hidden", "a b", "x\ny"] {
            fs::write(root.join(name), "").unwrap();
        }
        let one = |text: &str| Some((text.to_owned(), Vec::new()));
        assert_eq!(completed("/he", root), one("/help "));
        assert_eq!(completed("/ag", root), Some(("/agent".into(), vec!["agent".into(), "agents".into()])));
        assert_eq!(completed("/x", root), None);
        assert_eq!(completed("/help me", root), None);
        let both = vec!["worker-count-1".to_owned(), "worker-listen-2".into()];
        assert_eq!(completed("/focus ", root), Some(("/focus worker-".into(), both)));
        assert_eq!(completed("/focus worker-l", root), one("/focus worker-listen-2 "));
        assert_eq!(completed("/focus nobody", root), None);
        assert_eq!(completed("/focus worker-count-1 w", root), None);
        assert_eq!(completed("/review @no", root), one("/review @notes.md "));
        assert_eq!(completed("read @no", root), one("read @notes.md "));
        assert_eq!(completed("@s", root), one("@src/"));
        assert_eq!(
            completed("see @src/ma", root),
            Some(("see @src/ma".into(), vec!["src/main.rs".into(), "src/map.rs".into()]))
        );
        assert_eq!(completed("@.h", root), one("@.hidden "));
        for text in ["", "plain", "a@b", "@a", "@x", "@none/x"] {
            assert_eq!(completed(text, root), None, "{text}");
        }
        assert_eq!(completed("@", root), Some(("@".into(), vec!["notes.md".into(), "src/".into()])));
    }
}
