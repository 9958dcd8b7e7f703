use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use crate::{
    files, limits,
    tool::{CompletionStatus, TaskCompletion},
};

/// A folder of reflections on failed tasks: one Markdown file each, found again by the words of later tasks. Clones refer to
/// the same folder.
#[derive(Debug, Clone)]
pub struct ReflectionStore {
    folder: Arc<Path>,
}

impl ReflectionStore {
    /// Creates a store for this folder, which is created with the first file.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into().into() }
    }

    /// Writes a reflection on a failed task to a new file.
    ///
    /// # Errors
    ///
    /// The I/O error that prevented the write.
    pub async fn write(&self, agent: &str, task: &str, completed: &TaskCompletion) -> io::Result<()> {
        let folder = Arc::clone(&self.folder);
        let (stem, text) = (file_stem(agent, SystemTime::now()), text(agent, task, completed));
        in_background(move || save(&folder, &stem, &text)).await
    }

    /// Returns the reflections on similar tasks, newest first; `None` if there are none. Unreadable files are skipped.
    pub async fn relevant(&self, task: &str) -> Option<String> {
        let words = words(task);
        if words.is_empty() {
            return None;
        }
        let folder = Arc::clone(&self.folder);
        let found = in_background(move || Ok(find(&folder, &words))).await.unwrap_or_default();
        (!found.is_empty()).then(|| found.join("\n\n---\n\n"))
    }
}

async fn in_background<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(io::Error::other("the task crashed")))
}

/// Returns a file name such as `coder-20260207-153012`: the agent and the UTC time.
fn file_stem(agent: &str, now: SystemTime) -> String {
    let safe = |c: char| if c.is_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    let mut agent: String = agent.chars().map(safe).collect();
    agent.truncate(agent.floor_char_boundary(limits::NAME_SHOWN_CHARS));
    let time = humantime::format_rfc3339_seconds(files::writable_date(now)).to_string();
    let digits: String = time.chars().filter(char::is_ascii_digit).collect();
    let (day, time) = digits.split_at(digits.len().min(8));
    format!("{agent}-{day}-{time}")
}

fn text(agent: &str, task: &str, completed: &TaskCompletion) -> String {
    let TaskCompletion { status, summary, files_modified, tests_run, caveats } = completed;
    let status = match status {
        CompletionStatus::Completed => "completed",
        CompletionStatus::Failed => "failed",
    };
    let mut text =
        format!("# {agent}: {status}\n\n## Task\n\n{}\n\n## What happened\n\n{}\n", task.trim(), summary.trim());
    if let Some(caveats) = caveats {
        text.push_str(&format!("\n## Caveats\n\n{}\n", caveats.trim()));
    }
    for (title, list) in [("Files changed", files_modified), ("Tests run", tests_run)] {
        if !list.is_empty() {
            text.push_str(&format!("\n## {title}\n\n- {}\n", list.join("\n- ")));
        }
    }
    text.truncate(text.floor_char_boundary(limits::REFLECTION_BYTES));
    text
}

/// Writes a new file; two failures in one second give two files.
fn save(folder: &Path, stem: &str, text: &str) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o750);
    builder.create(folder)?;
    for n in 1..=limits::REFLECTIONS_A_SECOND {
        let name = if n == 1 { format!("{stem}.md") } else { format!("{stem}-{n}.md") };
        if files::create(&folder.join(name), text.as_bytes())? {
            // A file that cannot be removed does no harm.
            newest_first(folder).iter().skip(limits::REFLECTIONS_KEPT).for_each(|path| drop(fs::remove_file(path)));
            return Ok(());
        }
    }
    Err(io::Error::other("too many reflections in one second"))
}

/// Returns the reflections in a folder, newest first.
fn newest_first(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|ending| ending == "md"))
        .filter_map(|entry| {
            let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((about.modified().ok()?, entry.path()))
        })
        .collect();
    // Among files of the same time, the later name is newer.
    files.sort_by(|one, other| other.cmp(one));
    files.into_iter().map(|(_, path)| path).collect()
}

/// Returns the newest files that share at least two words with the task, as many as fit.
fn find(folder: &Path, words: &BTreeSet<String>) -> Vec<String> {
    let files = newest_first(folder);
    let (mut found, mut bytes) = (Vec::new(), 0);
    for path in files {
        let Some(text) = read(&path) else { continue };
        let lower = text.to_lowercase();
        let known = words.iter().filter(|word| lower.contains(word.as_str())).count();
        if known < 2.min(words.len()) || bytes + text.len() > limits::REFLECTIONS_BYTES {
            continue;
        }
        bytes += text.len();
        found.push(text.trim().to_owned());
        if found.len() == limits::REFLECTIONS_TOLD {
            break;
        }
    }
    found
}

fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    files::open(path).ok()?.take(limits::REFLECTION_BYTES as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the words of a task that are long enough to be significant, in lower case.
fn words(task: &str) -> BTreeSet<String> {
    let words = task.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| word.len() >= limits::REFLECTION_WORD_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(summary: &str) -> TaskCompletion {
        TaskCompletion {
            status: CompletionStatus::Failed,
            summary: summary.into(),
            files_modified: vec!["src/a.rs".into()],
            tests_run: vec![],
            caveats: Some("slow".into()),
        }
    }

    #[tokio::test]
    async fn reflections_are_found_by_words_of_the_task() {
        let folder = tempfile::tempdir().unwrap();
        let reflections = ReflectionStore::new(folder.path().join("reflections"));
        assert_eq!(reflections.relevant("refactor the parser").await, None, "there is no folder yet");
        for n in 1..=limits::REFLECTIONS_TOLD + 2 {
            let summary = format!("attempt {n} broke the tokenizer");
            reflections.write("coder", "Refactor the parser module", &failed(&summary)).await.unwrap();
        }
        reflections.write("coder/../x", "Bake bread", &failed("it burned")).await.unwrap();
        let names: Vec<_> =
            fs::read_dir(&*reflections.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), limits::REFLECTIONS_TOLD + 3, "none overwrites another: {names:?}");
        let told = reflections.relevant("please refactor this parser").await.unwrap();
        assert_eq!(told.matches("# coder: failed").count(), limits::REFLECTIONS_TOLD);
        assert!(told.contains("src/a.rs") && told.contains("slow"), "{told}");
        for (task, found) in [("bake some bread", true), ("bake a cake", false), ("the", false), ("", false)] {
            assert_eq!(reflections.relevant(task).await.is_some(), found, "{task}");
        }
    }

    #[tokio::test]
    async fn relevant_reflections_are_limited() {
        let folder = tempfile::tempdir().unwrap();
        let reflections = ReflectionStore::new(folder.path());
        for _ in 0..4 {
            reflections.write("coder", "long story", &failed(&"ü".repeat(limits::REFLECTION_BYTES))).await.unwrap();
        }
        let told = reflections.relevant("another long story").await.unwrap();
        assert!(told.len() <= limits::REFLECTIONS_BYTES + 100, "{}", told.len());
        assert!(told.starts_with("# coder: failed"));
    }

    #[test]
    fn a_file_is_named_after_agent_and_time() {
        let never_set = SystemTime::UNIX_EPOCH - std::time::Duration::from_secs(1);
        assert!(file_stem("ada", never_set).contains("1970"));
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::new(1_770_478_212, 0);
        assert_eq!(file_stem("co/der", time), "co-der-20260207-153012");
    }
}
