//! Files that a message mentions as `@path`: they are attached to it.

use std::path::{Path, PathBuf};

use crate::{
    error::{ErrorKind, Report},
    task::{AttachedFile, TaskInput},
};

/// Returns the path of the mention that the text ends with, without its `@`.
pub fn last_mention(text: &str) -> Option<&str> {
    let word = text.rsplit(char::is_whitespace).next()?;
    word.strip_prefix('@')
}

/// Returns a message with the files that it mentions and that exist; a path is relative to `root`. Marks of punctuation after
/// a path belong to it only if there is such a file. A file outside of `root` is attached only if `typed`, the person's own
/// words, mentions it: the rest of the message may come from a file of the project.
///
/// # Errors
///
/// A [`Report`] if a file cannot be attached, or if a path that `typed` mentions is no file.
pub fn with_mentioned_files(text: String, typed: &str, root: &Path) -> Result<TaskInput, Report> {
    if let Some(report) = mentioned_words(typed).find_map(|word| why_not_attached(word, root)) {
        return Err(report);
    }
    let real_root = root.canonicalize().ok();
    let lies_in_project = |path: &PathBuf| {
        let real = path.canonicalize().ok();
        real.zip(real_root.as_ref()).is_some_and(|(path, root)| path.starts_with(root))
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in mentions(typed, root).chain(mentions(&text, root).filter(lies_in_project)) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let attachments = AttachedFile::read_all(&paths)?;
    Ok(TaskInput { text, attachments, schema: None })
}

/// Returns the files that a text mentions.
fn mentions(text: &str, root: &Path) -> impl Iterator<Item = PathBuf> {
    mentioned_words(text).filter_map(|path| file(path, root))
}

fn mentioned_words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter_map(|word| word.strip_prefix('@'))
}

/// Returns the file at a path.
fn file(path: &str, root: &Path) -> Option<PathBuf> {
    let paths = [path, without_punctuation(path)].map(|path| root.join(path));
    paths.into_iter().find(|path| path.is_file())
}

fn without_punctuation(path: &str) -> &str {
    path.trim_end_matches(|c: char| c.is_ascii_punctuation() && !matches!(c, '/' | '_' | '~'))
}

/// Returns the reason why a word that was typed after `@` is attached to nothing, if it means a path. Other words, such as the
/// name of a team, may stand after the mark.
fn why_not_attached(word: &str, root: &Path) -> Option<Report> {
    if file(word, root).is_some() {
        return None;
    }
    let path = without_punctuation(word);
    let hint = |what: &str| format!("{what}, or write the word without the @");
    if !path.is_empty() && root.join(path).is_dir() {
        let report = Report::new(ErrorKind::Usage, format!("{path}: folders are not attached"));
        return Some(report.hint(hint("name the files in it")));
    }
    let has_extension =
        Path::new(path).extension().is_some_and(|end| end.to_string_lossy().contains(char::is_alphabetic));
    let is_of_path = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~' | '+' | ',');
    let means_path = (path.contains('/') || has_extension) && path.chars().all(is_of_path);
    means_path.then(|| {
        Report::new(ErrorKind::Usage, format!("{path}: no such file")).hint(hint("correct the path after the @"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentioned_files_are_attached_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.md"), "text").unwrap();
        std::fs::write(folder.path().join("b.bin"), [0xff, 0xfe]).unwrap();
        let names = |text: &str| {
            let input = with_mentioned_files(text.into(), text, folder.path()).unwrap();
            assert_eq!(input.text, text);
            input.attachments.len()
        };
        assert_eq!(names("Read @a.md, then compare (@a.md) with @a.md."), 1);
        assert_eq!(names("ask @alice about mail@a.md and @"), 0);
        let report = with_mentioned_files("see @b.bin".into(), "", folder.path()).unwrap_err();
        assert!(report.to_string().starts_with("cannot attach"), "{report}");
    }

    #[test]
    fn mentioned_path_without_a_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        for (text, refused) in [
            ("Read @nofile.md, please.", Some("nofile.md: no such file")),
            ("Read @src/main", Some("src/main: no such file")),
            ("Read @docs", Some("docs: folders are not attached")),
            ("Read @docs/.", Some("docs/: folders are not attached")),
            ("Ask @team or ada@mail.example about version @1.2 and @", None),
            ("Why does @app.route('/x') fail?", None),
        ] {
            let input = with_mentioned_files(text.into(), text, folder.path());
            assert_eq!(input.err().map(|report| report.message).as_deref(), refused, "{text}");
        }
        assert!(with_mentioned_files("See @nofile.md.".into(), "/review", folder.path()).is_ok(), "not typed");
    }

    #[test]
    fn only_the_person_attaches_files_of_other_folders() {
        let (project, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = other.path().join("id_rsa");
        std::fs::write(&secret, "key").unwrap();
        std::fs::write(project.path().join("a.md"), "text").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&secret, project.path().join("link")).unwrap();
        let text = format!("Review @a.md and @link, then @{}", secret.display());
        let attached =
            |typed: &str| with_mentioned_files(text.clone(), typed, project.path()).unwrap().attachments.len();
        assert_eq!(attached("/review"), 1);
        assert_eq!(attached(&format!("/review @{}", secret.display())), 2);
    }

    #[test]
    fn mention_before_the_cursor_is_found() {
        for (text, mention) in [("@", Some("")), ("a @b/c", Some("b/c")), ("a@b", None), ("@a ", None), ("", None)] {
            assert_eq!(last_mention(text), mention, "{text}");
        }
    }
}
