//! The name of a batch, from which its sessions have theirs.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{task_file::shown, task_line::BatchTask};
use crate::{
    digest::Sha256Digest,
    error::{ErrorKind, Report, without_number},
    files, limits,
    project::ProjectLayout,
};

/// The name of a batch. It is stored beside the sessions as long as the batch is not complete, under the path of the results
/// file: the same command finds the same sessions again. A results file that is not there begins another batch.
#[derive(Debug)]
pub(super) struct BatchName {
    token: String,
    path: PathBuf,
}

/// The content of the file in which a batch's name is stored.
#[derive(Serialize, Deserialize)]
struct StoredBatchName {
    /// The results file, for people.
    output: String,
    batch: String,
}

impl BatchName {
    /// Returns the name of the batch with the results file `output` in the project `root`. `is_new`: the results file was not
    /// there, so that sessions of earlier batches with this file are not used.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the name cannot be stored.
    pub fn open(output: &Path, root: &Path, is_new: bool) -> Result<Self, Report> {
        let layout = ProjectLayout::new(root);
        let hint = "check the permissions of that folder, or record nothing with --no-session";
        layout.make_local().map_err(|error| error.report().hint(hint))?;
        let folder = layout.local().join("batches");
        let unwritable = |error: io::Error| {
            let report = Report::new(ErrorKind::Run, format!("cannot write to {}", shown(&folder)));
            report.cause(without_number(&error.to_string())).hint(hint)
        };
        files::create_folder(&folder).map_err(unwritable)?;
        let output = files::resolved(&std::path::absolute(output).map_err(unwritable)?);
        let output = output.to_string_lossy().into_owned();
        let path = folder.join(format!("{}.json", &Sha256Digest::of(&output).hex()[..16]));
        let stored = (!is_new).then(|| files::read(&path, &folder, limits::TASK_BATCH_BYTES).ok()).flatten();
        let stored = stored.and_then(|text| serde_json::from_str::<StoredBatchName>(&text).ok());
        if let Some(StoredBatchName { batch: token, .. }) = stored.filter(|stored| is_token(&stored.batch)) {
            return Ok(Self { token, path });
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| unwritable(io::Error::other(error)))?;
        let token = Sha256Digest::of(random).hex()[..8].to_owned();
        let stored = serde_json::json!(StoredBatchName { output, batch: token.clone() });
        files::replace(&path, stored.to_string().as_bytes()).map_err(unwritable)?;
        Ok(Self { token, path })
    }

    /// Returns the name of the session of a task that has failed `failures` times. Each further attempt, and a task whose line
    /// has changed, has a session of its own.
    pub fn session_name(&self, task: &BatchTask, failures: u8) -> String {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        let id = match task.id.len() <= limits::TASK_SESSION_ID_CHARS && task.id.chars().all(is_plain) {
            true => format!("-{}", task.id),
            // File systems tell no upper case from lower case, and other characters stand in no name.
            false => format!(".{}", &Sha256Digest::of(&task.id).hex()[..16]),
        };
        let attempt = if failures == 0 { String::new() } else { format!("-{}", u16::from(failures) + 1) };
        format!("batch-{}{id}-{}{attempt}", self.token, &task.digest.hex()[..8])
    }

    /// Forgets the name, once every task is answered.
    pub fn forget(self) {
        // Without the file the next start finds every task answered too.
        let _ = std::fs::remove_file(self.path);
    }
}

fn is_token(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, text: &str) -> BatchTask {
        BatchTask {
            line_number: 1,
            id: id.into(),
            text: text.into(),
            agent: None,
            model: None,
            attachments: Vec::new(),
            schema: None,
            digest: Sha256Digest::of(text),
            bytes: 0,
        }
    }

    #[test]
    fn session_names_differ_by_batch_id_task_and_attempt() {
        let batch_name = |token: &str| BatchName { token: token.into(), path: PathBuf::new() };
        let (one, other) = (batch_name("0a1b2c3d"), batch_name("ffffffff"));
        let name = one.session_name(&task("page-7", "x"), 0);
        assert_eq!(name, format!("batch-0a1b2c3d-page-7-{}", &Sha256Digest::of("x").hex()[..8]));
        let mut names = vec![
            name,
            other.session_name(&task("page-7", "x"), 0),
            one.session_name(&task("page-7", "x"), 1),
            one.session_name(&task("page-7", "x"), u8::MAX),
            one.session_name(&task("page-7", "y"), 0),
            one.session_name(&task("Page-7", "x"), 0),
            one.session_name(&task("é", "x"), 0),
            one.session_name(&task(&"x".repeat(limits::TASK_ID_CHARS), "x"), u8::MAX),
        ];
        assert!(names.iter().all(|name| name.len() <= limits::SESSION_NAME_BYTES), "{names:?}");
        let lower =
            |name: &String| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b));
        assert!(names.iter().all(lower), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 8);
    }

    #[test]
    fn batch_name_lasts_until_the_output_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let open = |output: &str, is_new| BatchName::open(&folder.path().join(output), folder.path(), is_new).unwrap();
        let first = open("a.jsonl", true).token;
        assert_eq!((open("a.jsonl", false).token, open("x/../a.jsonl", false).token), (first.clone(), first.clone()));
        assert_ne!(open("b.jsonl", false).token, first);
        let second = open("a.jsonl", true);
        assert_ne!(second.token, first);
        std::fs::write(&second.path, "{\"output\": \"\", \"batch\": \"../../../../x\"}").unwrap();
        let third = open("a.jsonl", false);
        assert!(is_token(&third.token), "{third:?}");
        let path = third.path.clone();
        third.forget();
        assert!(!path.exists());
    }
}
