//! The results file: the results of earlier starts are read, and new ones are appended.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    thread,
};

use tokio::sync::mpsc;

use super::{
    bounded_lines::{BoundedLines, FileLine},
    task_file::shown,
    task_index::TaskIndex,
    task_result::PastResult,
};
use crate::{
    capability::Usd,
    error::{ErrorKind, Report, why_unreadable, without_number},
    files::{self, LockedFile},
    limits,
    model::Usage,
};

/// A results file that is open for writing. It is locked: another batch cannot write to it at the same time.
#[derive(Debug)]
pub(super) struct ResultFile {
    file: LockedFile,
    path: PathBuf,
    /// `true` if the file was not there before.
    pub is_new: bool,
}

/// The results of earlier starts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct PastResults {
    /// The tokens of all results of tasks that are answered, and their number.
    pub usage_of_answered: Usage,
    pub answered: u64,
    /// The cost of all results.
    pub usd: Usd,
    /// The number of results of ids that the tasks file does not have.
    pub unknown: u64,
    /// `true` if the last line was half written, and its task runs again.
    pub is_cut: bool,
}

impl ResultFile {
    /// Opens the file, or creates it, and locks it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot be opened, or another process has locked it.
    pub fn open(path: &Path) -> Result<Self, Report> {
        let is_new = !path.try_exists().map_err(|error| unwritable(path, &error))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        if !is_new {
            // A pipe or a device is no place for results that are read again.
            files::open(path).map_err(|error| unwritable(path, &error))?;
        }
        let file = options.open(path).map_err(|error| unwritable(path, &error))?;
        match LockedFile::try_new(file) {
            Ok(Some(file)) => Ok(Self { file, path: path.to_owned(), is_new }),
            Ok(None) => {
                let report = Report::new(ErrorKind::Usage, format!("the results file {} is in use", shown(path)));
                Err(report
                    .cause("another batch writes to it")
                    .hint("wait until that batch has ended, or name another file with --output"))
            }
            Err(error) => Err(unwritable(path, &error)),
        }
    }

    /// Records the results of earlier starts in `index`. A half-written last line, which a crash leaves behind, is removed.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the line if the file holds anything but results.
    pub fn recover(&mut self, index: &mut TaskIndex) -> Result<PastResults, Report> {
        self.file.rewind().map_err(|error| unwritable(&self.path, &error))?;
        let reading = self.file.try_clone().map_err(|error| unwritable(&self.path, &error))?;
        let (past, end) = scan(reading, &self.path, index)?;
        let mended = match end {
            ResultsEnd::Whole => self.file.seek(SeekFrom::End(0)).map(drop),
            ResultsEnd::Unended => self.file.seek(SeekFrom::End(0)).and_then(|_| self.file.write_all(b"\n")),
            ResultsEnd::Cut(at) => self.file.set_len(at).and_then(|()| self.file.seek(SeekFrom::End(0)).map(drop)),
        };
        mended.map_err(|error| unwritable(&self.path, &error))?;
        Ok(past)
    }

    /// Starts the thread that appends results.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the system refuses it.
    pub fn into_writer(self) -> Result<ResultWriter, Report> {
        let (lines, queue) = mpsc::channel(limits::TASK_RESULTS_WAITING);
        let Self { file, path, .. } = self;
        let lost = move |error| {
            let mut report = unwritable(&path, &error);
            report.kind = ErrorKind::Run;
            report
        };
        let writing = move || append(file, queue).map_err(lost);
        let thread = thread::Builder::new().name("results".into()).spawn(writing);
        let thread = thread
            .map_err(|error| Report::new(ErrorKind::Bug, "cannot start the thread that writes results").cause(error))?;
        Ok(ResultWriter { lines, thread })
    }
}

/// Records the results of a file in `index` without changing it; a file that is not there has none.
///
/// # Errors
///
/// The errors of [`ResultFile::recover`].
pub(super) fn look_at_results(path: &Path, index: &mut TaskIndex) -> Result<PastResults, Report> {
    match files::open(path) {
        Ok(file) => scan(file, path, index).map(|(past, _)| past),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PastResults::default()),
        Err(error) => Err(unwritable(path, &error)),
    }
}

/// The end of a results file.
enum ResultsEnd {
    Whole,
    /// The last result has no line break.
    Unended,
    /// A half-written result begins at this offset.
    Cut(u64),
}

fn scan(file: File, path: &Path, index: &mut TaskIndex) -> Result<(PastResults, ResultsEnd), Report> {
    let mut lines = BoundedLines::new(file, limits::TASK_RESULT_BYTES);
    let (mut past, mut end) = (PastResults::default(), ResultsEnd::Whole);
    while let Some(line) = lines.next().map_err(|error| unwritable(path, &error))? {
        let FileLine { number, start, bytes, is_ended, is_too_long } = line;
        if bytes.trim_ascii().is_empty() && is_ended {
            continue;
        }
        let result = match serde_json::from_slice::<PastResult>(&bytes) {
            Ok(result) => result,
            // Only the beginning of a result is removed: the file may be something else that a person has named by mistake.
            Err(_) if !is_ended && !is_too_long && begins_a_result(&bytes) => {
                past.is_cut = true;
                end = ResultsEnd::Cut(start);
                break;
            }
            Err(_) => {
                let message = format!("{}, line {number}: not a result of a batch", shown(path));
                let report = Report::new(ErrorKind::Usage, message);
                return Err(report.hint("name another results file with --output, or remove that line"));
            }
        };
        if !is_ended {
            end = ResultsEnd::Unended;
        }
        past.usd = past.usd.saturating_add(result.cost_usd.unwrap_or_default());
        if result.is_answered() {
            past.usage_of_answered += result.usage;
            past.answered += 1;
        }
        if !index.record(&result.id, result.is_answered()) {
            past.unknown += 1;
        }
    }
    Ok((past, end))
}

/// Returns `true` if a result may begin with these bytes.
fn begins_a_result(bytes: &[u8]) -> bool {
    const BEGINNING: &[u8] = b"{\"id\":\"";
    let common = bytes.len().min(BEGINNING.len());
    bytes[..common] == BEGINNING[..common]
}

fn unwritable(path: &Path, error: &io::Error) -> Report {
    let cause = match error.kind() {
        io::ErrorKind::NotFound => "there is no such folder".into(),
        io::ErrorKind::StorageFull => without_number(&error.to_string()),
        _ => why_unreadable(error),
    };
    let report = Report::new(ErrorKind::Usage, format!("cannot use the results file {}", shown(path))).cause(cause);
    report.hint("name a writable file with --output; results that were already written are kept")
}

/// Appends results until no more come. Results that came in the meantime are written at once, and synced together.
fn append(mut file: LockedFile, mut queue: mpsc::Receiver<String>) -> io::Result<()> {
    let mut together = Vec::new();
    while let Some(line) = queue.blocking_recv() {
        together.extend_from_slice(line.as_bytes());
        while together.len() < limits::TASK_RESULT_BYTES
            && let Ok(line) = queue.try_recv()
        {
            together.extend_from_slice(line.as_bytes());
        }
        file.write_all(&together)?;
        file.sync_data()?;
        together.clear();
    }
    Ok(())
}

/// Appends results to a file, in a thread of its own.
pub(super) struct ResultWriter {
    lines: mpsc::Sender<String>,
    thread: thread::JoinHandle<Result<(), Report>>,
}

impl ResultWriter {
    /// Appends a line. Returns `false` if the file cannot be written any more; [`Self::finish`] returns why.
    pub async fn append(&self, line: String) -> bool {
        self.lines.send(line).await.is_ok()
    }

    /// Waits until all lines are on the disk.
    ///
    /// # Errors
    ///
    /// A [`Report`] if one could not be written.
    pub async fn finish(self) -> Result<(), Report> {
        let Self { lines, thread } = self;
        drop(lines);
        let crashed = || Err(Report::new(ErrorKind::Bug, "the thread that writes results crashed"));
        match tokio::task::spawn_blocking(move || thread.join()).await {
            Ok(Ok(written)) => written,
            _ => crashed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const ANSWERED: &str = "{\"id\":\"a\",\"error\":null,\"cost_usd\":0.25,\"usage\":{\"input_tokens\":3,\"output_tokens\":4,\
                            \"cache_read_tokens\":0,\"cache_write_tokens\":0}}\n";
    const FAILED: &str = "{\"id\":\"b\",\"error\":{\"kind\":\"run\"},\"cost_usd\":0.5}\n";

    fn fresh_index() -> TaskIndex {
        let mut index = TaskIndex::default();
        ["a", "b", "c"].iter().for_each(|id| assert!(index.add(id)));
        index
    }

    fn recovered(path: &Path, text: &str) -> Result<(PastResults, TaskIndex, String), Report> {
        std::fs::write(path, text).unwrap();
        let (mut index, mut file) = (fresh_index(), ResultFile::open(path)?);
        assert!(!file.is_new);
        let past = file.recover(&mut index)?;
        let mended = std::fs::read_to_string(path).unwrap();
        Ok((past, index, mended))
    }

    #[tokio::test]
    async fn half_written_last_line_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let whole = format!("{ANSWERED}{FAILED}");
        let without_break = whole.trim_end().to_owned();
        for (text, is_cut, mended) in [
            (format!("{whole}{{\"id\":\"c\",\"answer\":\"Fo"), true, &whole),
            (format!("{whole}{{"), true, &whole),
            (whole.clone(), false, &whole),
            // The result is whole.
            (without_break, false, &whole),
        ] {
            let (past, index, text) = recovered(&path, &text).unwrap();
            assert_eq!((past.is_cut, &text), (is_cut, mended));
            assert_eq!((past.answered, past.unknown, past.usd), (1, 0, "0.75".parse().unwrap()));
            assert_eq!(past.usage_of_answered.total(), 7);
            let pending = ["a", "b", "c"].map(|id| index.state(id).unwrap().is_pending(false));
            assert_eq!(pending, [false, false, true]);
            let looked = look_at_results(&path, &mut fresh_index()).unwrap();
            assert_eq!(looked, PastResults { is_cut: false, ..past });
        }
        let mut file = ResultFile::open(&path).unwrap();
        file.recover(&mut fresh_index()).unwrap();
        let writer = file.into_writer().unwrap();
        assert!(writer.append("{\"id\":\"c\",\"error\":null}\n".into()).await);
        writer.finish().await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{whole}{{\"id\":\"c\",\"error\":null}}\n"));
    }

    #[test]
    fn file_that_holds_no_results_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        for (text, line) in [
            (format!("{ANSWERED}{{\"id\": \"a\", \"task\": \"x\"}}\n"), "line 2"),
            (format!("{ANSWERED}\n{{\"id\":\"c\",\n{FAILED}"), "line 3"),
            ("My diary".into(), "line 1"),
        ] {
            let report = recovered(&path, &text).err().unwrap();
            assert!(report.message.contains(&format!("out.jsonl, {line}: not a result of a batch")), "{report}");
            assert!(report.hint.unwrap().contains("--output"));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let elsewhere = format!("{ANSWERED}{}", FAILED.replace("\"b\"", "\"z\""));
        assert_eq!(recovered(&path, &elsewhere).unwrap().0.unknown, 1);
    }

    #[test]
    fn locked_or_missing_results_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let first = ResultFile::open(&path).unwrap();
        assert!(first.is_new);
        let report = ResultFile::open(&path).unwrap_err();
        assert!(report.to_string().contains("is in use: another batch writes to it"), "{report}");
        drop(first);
        // A process that another test starts at this moment holds the lock until it is a program of its own.
        let released = Instant::now() + Duration::from_secs(20);
        let mut tries = std::iter::from_fn(|| (Instant::now() < released).then(|| ResultFile::open(&path)));
        let again = tries.find_map(Result::ok).expect("the lock was released");
        assert!(!again.is_new);
        let report = ResultFile::open(&folder.path().join("none/out.jsonl")).unwrap_err();
        assert!(report.to_string().ends_with("there is no such folder"), "{report}");
        let report = ResultFile::open(folder.path()).unwrap_err();
        assert!(report.to_string().ends_with("expected a file, found a folder"), "{report}");
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn full_disk_ends_the_writer() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = LockedFile::try_new(full).unwrap().unwrap();
        let writer = ResultFile { file, path: "out.jsonl".into(), is_new: true }.into_writer().unwrap();
        assert!(writer.append("{}\n".into()).await);
        let report = writer.finish().await.unwrap_err();
        assert!(report.to_string().contains("cannot use the results file out.jsonl"), "{report}");
    }
}
