use std::{
    collections::BTreeSet,
    fmt, fs,
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
    time::SystemTime,
};

use crate::{
    files, limits,
    tool::{CompletionStatus, TaskCompletion},
};

/// Reflections on failed tasks: one Markdown text each, found again by the words of later tasks. They are files in a folder,
/// or in a bucket that several hosts share. Clones refer to the same reflections.
#[derive(Debug, Clone)]
pub struct ReflectionStore {
    storage: Arc<dyn ReflectionStorage>,
}

/// The place of reflections. All calls may block.
pub trait ReflectionStorage: Send + Sync + fmt::Debug {
    /// Adds a text under a name like `stem`, which may be in use, and removes the oldest texts beyond
    /// [`limits::REFLECTIONS_KEPT`].
    ///
    /// # Errors
    ///
    /// The error that prevented it.
    fn save(&self, stem: &str, text: &str) -> io::Result<()>;

    /// Returns the names of all texts, newest first.
    fn newest_first(&self) -> Vec<String>;

    /// Returns the text of this name, cut at [`limits::REFLECTION_BYTES`]; `None` if it cannot be read.
    fn read(&self, name: &str) -> Option<String>;
}

/// A folder of reflections.
#[derive(Debug)]
struct ReflectionFolder(PathBuf);

impl ReflectionStore {
    /// Creates a store for this folder, which is created with the first file.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::with_storage(Arc::new(ReflectionFolder(folder.into())))
    }

    /// Creates a store of reflections in this place.
    pub fn with_storage(storage: Arc<dyn ReflectionStorage>) -> Self {
        Self { storage }
    }

    /// Writes a reflection on a failed task to a new file.
    ///
    /// # Errors
    ///
    /// The I/O error that prevented the write.
    pub async fn write(&self, agent: &str, task: &str, completed: &TaskCompletion) -> io::Result<()> {
        let storage = Arc::clone(&self.storage);
        let (stem, text) = (file_stem(agent, SystemTime::now()), text(agent, task, completed));
        in_background(move || storage.save(&stem, &text)).await
    }

    /// Returns the reflections on similar tasks, newest first; `None` if there are none. Unreadable files are skipped.
    pub async fn relevant(&self, task: &str) -> Option<String> {
        let words = words(task);
        if words.is_empty() {
            return None;
        }
        let storage = Arc::clone(&self.storage);
        let found = in_background(move || Ok(find(&*storage, &words))).await.unwrap_or_default();
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

impl ReflectionStorage for ReflectionFolder {
    /// Writes a new file; two failures in one second give two files.
    fn save(&self, stem: &str, text: &str) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o750);
        builder.create(&self.0)?;
        for n in 1..=limits::REFLECTIONS_A_SECOND {
            let name = if n == 1 { format!("{stem}.md") } else { format!("{stem}-{n}.md") };
            if files::create(&self.0.join(name), text.as_bytes())? {
                let old = self.newest_first().into_iter().skip(limits::REFLECTIONS_KEPT);
                // A file that cannot be removed does no harm.
                old.for_each(|name| drop(fs::remove_file(self.0.join(name))));
                return Ok(());
            }
        }
        Err(io::Error::other("too many reflections in one second"))
    }

    fn newest_first(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Vec::new() };
        let mut files: Vec<(SystemTime, String)> = entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|ending| ending == "md"))
            .filter_map(|entry| {
                let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((about.modified().ok()?, entry.file_name().into_string().ok()?))
            })
            .collect();
        // Among files of the same time, the later name is newer.
        files.sort_by(|one, other| other.cmp(one));
        files.into_iter().map(|(_, name)| name).collect()
    }

    fn read(&self, name: &str) -> Option<String> {
        let mut bytes = Vec::new();
        let file = files::open(&self.0.join(name)).ok()?;
        file.take(limits::REFLECTION_BYTES as u64).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Returns the newest texts that share at least two words with the task, as many as fit.
fn find(storage: &dyn ReflectionStorage, words: &BTreeSet<String>) -> Vec<String> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for name in storage.newest_first().iter().take(limits::REFLECTIONS_KEPT) {
        let Some(text) = storage.read(name) else { continue };
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
        let path = folder.path().join("reflections");
        let reflections = ReflectionStore::new(&path);
        assert_eq!(reflections.relevant("refactor the parser").await, None, "there is no folder yet");
        for n in 1..=limits::REFLECTIONS_TOLD + 2 {
            let summary = format!("attempt {n} broke the tokenizer");
            reflections.write("coder", "Refactor the parser module", &failed(&summary)).await.unwrap();
        }
        reflections.write("coder/../x", "Bake bread", &failed("it burned")).await.unwrap();
        let names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
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
