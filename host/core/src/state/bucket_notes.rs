use std::{
    io,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    notes::{NoteError, NoteList, NoteStorage, NoteSummary, check_name},
    reflections::ReflectionStorage,
};
use crate::{
    bucket::{BucketEntry, BucketError, StateBucket, bucket_key_part},
    error::cut,
    limits,
};

/// The beginning of the keys of notes, and of those of reflections.
const NOTES: &str = "note";
const REFLECTIONS: &str = "reflection";

/// Notes and reflections in a bucket that several hosts share: a note is at `note.NAME`, a reflection at
/// `reflection.TIME.NAME`.
#[derive(Debug, Clone)]
pub struct BucketNotes {
    bucket: Arc<dyn StateBucket>,
}

impl BucketNotes {
    /// Creates the notes and reflections in this bucket.
    pub fn new(bucket: Arc<dyn StateBucket>) -> Self {
        Self { bucket }
    }

    /// Returns the names of the notes, sorted; foreign keys are skipped.
    fn names(&self) -> Result<Vec<String>, NoteError> {
        let keys = self.bucket.keys(NOTES)?;
        let names = keys.iter().filter_map(|key| key.get(NOTES.len() + 1..)).filter(|name| check_name(name).is_ok());
        Ok(names.map(str::to_owned).collect())
    }
}

impl From<BucketError> for NoteError {
    fn from(error: BucketError) -> Self {
        Self::Cluster { cause: error.to_string() }
    }
}

impl NoteStorage for BucketNotes {
    fn write(&self, name: &str, content: &str) -> Result<(), NoteError> {
        let key = format!("{NOTES}.{name}");
        for _ in 0..limits::BUCKET_ATTEMPTS {
            let there = self.bucket.get(&key)?.map(|entry| entry.revision);
            if there.is_none() {
                let count = self.names()?.len();
                if count >= limits::NOTES_FILES {
                    return Err(NoteError::Full { count });
                }
            }
            let Some(revision) = self.bucket.write(&key, there, Some(content.as_bytes()))? else { continue };
            // Two hosts may have added the last one at the same time.
            if there.is_none() && self.names()?.len() > limits::NOTES_FILES {
                self.bucket.write(&key, Some(revision), None)?;
                return Err(NoteError::Full { count: limits::NOTES_FILES });
            }
            return Ok(());
        }
        Err(BucketError::Busy { key }.into())
    }

    fn read(&self, name: &str) -> Result<String, NoteError> {
        let there = self.bucket.get(&format!("{NOTES}.{name}"))?;
        let BucketEntry { value, .. } = there.ok_or_else(|| NoteError::Missing { name: name.into() })?;
        if value.len() > limits::NOTES_FILE_BYTES {
            return Err(NoteError::TooLarge { name: name.into(), bytes: value.len() as u64 });
        }
        let unreadable = |_| NoteError::File { name: name.into(), action: "read", cause: "not UTF-8 text".into() };
        String::from_utf8(value).map_err(unreadable)
    }

    fn list(&self) -> Result<NoteList, NoteError> {
        let names = self.names()?;
        let left_off = names.len().saturating_sub(limits::NOTES_FILES);
        let mut notes = Vec::new();
        for name in names.into_iter().take(limits::NOTES_FILES) {
            match self.bucket.get(&format!("{NOTES}.{name}")) {
                Ok(Some(BucketEntry { value, .. })) => {
                    // Only as many bytes as the shown line can have.
                    let head = &value[..value.len().min((limits::NOTES_LINE_CHARS + 1) * 4)];
                    let first_line = String::from_utf8_lossy(head);
                    let first_line = cut(first_line.lines().next().unwrap_or_default(), limits::NOTES_LINE_CHARS);
                    notes.push(NoteSummary { name, first_line });
                }
                // A note that was removed meanwhile, or is none, is skipped.
                Ok(None) | Err(BucketError::Damaged { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(NoteList { notes, left_off })
    }
}

impl ReflectionStorage for BucketNotes {
    fn save(&self, stem: &str, text: &str) -> io::Result<()> {
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        for n in 1..=limits::REFLECTIONS_A_SECOND {
            let name = if n == 1 { stem.to_owned() } else { format!("{stem}-{n}") };
            let key = format!("{REFLECTIONS}.{millis:016}.{}", bucket_key_part(&name));
            if self.bucket.write(&key, None, Some(text.as_bytes())).map_err(io::Error::other)?.is_none() {
                continue;
            }
            for old in self.newest_first().iter().skip(limits::REFLECTIONS_KEPT) {
                // One that cannot be removed does no harm.
                if let Ok(Some(BucketEntry { revision, .. })) = self.bucket.get(old) {
                    let _ = self.bucket.write(old, Some(revision), None);
                }
            }
            return Ok(());
        }
        Err(io::Error::other("too many reflections at one time"))
    }

    fn newest_first(&self) -> Vec<String> {
        let mut keys = self.bucket.keys(REFLECTIONS).unwrap_or_default();
        keys.reverse();
        keys
    }

    fn read(&self, name: &str) -> Option<String> {
        let mut value = self.bucket.get(name).ok()??.value;
        value.truncate(limits::REFLECTION_BYTES);
        Some(String::from_utf8_lossy(&value).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bucket::MemoryBucket,
        state::{
            NoteStore, ReflectionStore,
            note_contract::{NoteFixture, failed_note_checks},
        },
        tool::{CompletionStatus, TaskCompletion},
    };

    impl NoteFixture for MemoryBucket {
        fn notes(&self) -> NoteStore {
            NoteStore::with_storage(Arc::new(BucketNotes::new(Arc::new(self.clone()))))
        }
    }

    #[test]
    fn bucket_notes_pass_all_checks() {
        assert_eq!(failed_note_checks(|| Box::new(MemoryBucket::new())), []);
    }

    #[tokio::test]
    async fn foreign_content_of_a_bucket_is_no_note() {
        let bucket = MemoryBucket::new();
        let large = vec![b'x'; limits::NOTES_FILE_BYTES + 1];
        for (key, value) in [
            ("note.=2e", &b"foreign"[..]),
            ("note.a.b", &b"foreign"[..]),
            ("note.large", &large[..]),
            ("note.binary", &b"\xff"[..]),
        ] {
            bucket.write(key, None, Some(value)).unwrap();
        }
        let notes = bucket.notes();
        let names: Vec<_> = notes.list().await.unwrap().notes.into_iter().map(|note| note.name).collect();
        assert_eq!(names, ["binary", "large"]);
        assert!(matches!(notes.read("large").await, Err(NoteError::TooLarge { .. })));
        assert!(notes.read("binary").await.unwrap_err().to_string().contains("not UTF-8"));
        bucket.set_away(true);
        let told = notes.read("large").await.unwrap_err().to_string();
        assert!(told.starts_with("cannot use the notes of the cluster: the cluster does not answer"), "{told}");
    }

    #[tokio::test]
    async fn reflections_in_a_bucket_are_found_and_bounded() {
        let bucket = MemoryBucket::new();
        let host = || ReflectionStore::with_storage(Arc::new(BucketNotes::new(Arc::new(bucket.clone()))));
        let failed = |summary: &str| TaskCompletion {
            status: CompletionStatus::Failed,
            summary: summary.into(),
            files_modified: vec![],
            tests_run: vec![],
            caveats: None,
        };
        for n in 0..=limits::REFLECTIONS_KEPT {
            host().write("co.der", "Refactor the parser", &failed(&format!("attempt {n}."))).await.unwrap();
        }
        let told = host().relevant("refactor this parser").await.unwrap();
        assert_eq!(told.matches("# co.der: failed").count(), limits::REFLECTIONS_TOLD);
        assert_eq!(bucket.keys(REFLECTIONS).unwrap().len(), limits::REFLECTIONS_KEPT);
        bucket.set_away(true);
        assert_eq!(host().relevant("refactor this parser").await, None, "a run goes on without them");
    }
}
