//! The events of a run that have left memory, in an unnamed temporary file. It is read and written on threads that may
//! block.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{RunEventLine, RunEventRecord};
use crate::limits;

/// The bytes before the JSON of an event in the file: its sequence, a flag, and the length of the JSON.
const HEAD_BYTES: usize = size_of::<u64>() + size_of::<u8>() + size_of::<u32>();

/// The space for the files of all runs of a host: the bytes that are left. Clones share it.
#[derive(Clone)]
pub(super) struct RunFileSpace(Arc<AtomicU64>);

/// The oldest events of a run, up to those in memory. At most [`limits::SERVE_RUN_FILE_BYTES`]: new events take the place of
/// the oldest ones.
pub(super) struct RunEventFile {
    space: RunFileSpace,
    state: Mutex<RunFileState>,
    /// The number of events that are gone.
    lost: AtomicU64,
    /// The first reason for which events could not be written, with its mend.
    failure: OnceLock<String>,
}

/// Events that were read from the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredLines {
    /// The position of the first one; without any, the position from which on events are in memory.
    pub first: u64,
    /// The sequence of the newest event that is gone; 0 if there is none.
    pub lost_to: u64,
    pub lines: Vec<RunEventLine>,
}

#[derive(Default)]
struct RunFileState {
    /// `None` until events leave memory.
    file: Option<File>,
    /// The blocks in the file, of events that follow each other.
    blocks: VecDeque<FileBlock>,
    /// The offset behind the newest block.
    end: u64,
    /// The length of the file, for which there is space.
    bytes: u64,
    /// The position of the next event that leaves memory.
    next: u64,
    /// The sequence of the newest event that is gone.
    lost_to: u64,
}

/// The reason why events cannot be written.
#[derive(Debug, thiserror::Error)]
enum RunFileError {
    /// The files of all runs have [`limits::SERVE_RUN_FILES_BYTES`].
    #[error(
        "those of all runs have {} bytes already, which is the maximum; lower --max-runs, or read the events as they come",
        limits::SERVE_RUN_FILES_BYTES
    )]
    NoSpace,
    /// The file cannot be made or written.
    #[error("{0}; free space in the folder for temporary files")]
    Io(#[from] io::Error),
}

/// A part of the file.
#[derive(Debug, Clone, Copy)]
struct FileBlock {
    offset: u64,
    bytes: usize,
    /// The position of the first event.
    first: u64,
    count: usize,
    /// The sequence of the last event.
    last_sequence: u64,
}

impl RunFileSpace {
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// Takes some of the space. Returns `false` if not so much is left.
    fn take(&self, bytes: u64) -> bool {
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(bytes)).is_ok()
    }
}

impl RunEventFile {
    pub fn new(space: &RunFileSpace) -> Self {
        Self { space: space.clone(), state: Mutex::default(), lost: AtomicU64::new(0), failure: OnceLock::new() }
    }

    /// Appends events that follow those that were appended before. If they cannot be written, they and those before them are
    /// gone: a reader gets all events from some number on, and none is missing among them.
    pub fn append(&self, records: &[RunEventRecord]) {
        let mut state = self.state();
        if let Err(error) = state.append(&self.space, records) {
            state.blocks.clear();
            self.failure.get_or_init(|| error.to_string());
        }
        state.next += records.len() as u64;
        if state.blocks.is_empty() {
            state.lost_to = records.last().map_or(state.lost_to, |record| record.event.sequence);
        }
        self.lost.store(state.first(), Ordering::SeqCst);
    }

    /// Returns the number of events that are gone.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::SeqCst)
    }

    /// Returns the first reason for which events could not be written, with its mend; `None` if all were.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Returns the events of a block after this sequence.
    pub fn lines_after(&self, sequence: u64) -> StoredLines {
        let mut state = self.state();
        let block = state.blocks.iter().find(|block| block.last_sequence > sequence).copied();
        let mut found = self.read(&mut state, block);
        let skipped = found.lines.partition_point(|line| line.sequence <= sequence);
        found.lines.drain(..skipped);
        found.first += skipped as u64;
        found
    }

    /// Returns the events of a block from this position on. If the event there is gone, the first one is a later one.
    pub fn lines_from(&self, position: u64) -> StoredLines {
        let mut state = self.state();
        let block = state.blocks.iter().find(|block| block.first + block.count as u64 > position).copied();
        let mut found = self.read(&mut state, block);
        let skipped = usize::try_from(position.saturating_sub(found.first)).unwrap_or(usize::MAX);
        let skipped = skipped.min(found.lines.len());
        found.lines.drain(..skipped);
        found.first += skipped as u64;
        found
    }

    /// Reads a block. If the file cannot be read, all of its events are gone.
    fn read(&self, state: &mut RunFileState, block: Option<FileBlock>) -> StoredLines {
        let lines = block.map(|block| state.read(block));
        let (first, lines) = match (block, lines) {
            (Some(block), Some(Ok(lines))) => (block.first, lines),
            (Some(_), _) => {
                state.lost_to = state.blocks.back().map_or(state.lost_to, |newest| newest.last_sequence);
                state.blocks.clear();
                self.lost.store(state.first(), Ordering::SeqCst);
                (state.next, Vec::new())
            }
            (None, _) => (state.next, Vec::new()),
        };
        StoredLines { first, lost_to: state.lost_to, lines }
    }

    fn state(&self) -> MutexGuard<'_, RunFileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunEventFile {
    fn drop(&mut self) {
        let bytes = self.state().bytes;
        self.space.0.fetch_add(bytes, Ordering::SeqCst);
    }
}

impl RunFileState {
    /// Returns the position of the first event that is in the file, or in memory: the number of events that are gone.
    fn first(&self) -> u64 {
        self.blocks.front().map_or(self.next, |block| block.first)
    }

    /// Writes a block.
    fn append(&mut self, space: &RunFileSpace, records: &[RunEventRecord]) -> Result<(), RunFileError> {
        let Some(last) = records.last() else { return Ok(()) };
        let content = encoded(records)?;
        let offset = self.make_place(space, content.len() as u64).ok_or(RunFileError::NoSpace)?;
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile()?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(&content)?;
        self.end = offset + content.len() as u64;
        self.blocks.push_back(FileBlock {
            offset,
            bytes: content.len(),
            first: self.next,
            count: records.len(),
            last_sequence: last.event.sequence,
        });
        Ok(())
    }

    /// Returns the offset for a block of this size, for which older ones may give way; `None` if there is no space.
    fn make_place(&mut self, space: &RunFileSpace, bytes: u64) -> Option<u64> {
        let most = limits::SERVE_RUN_FILE_BYTES;
        let more = |offset: u64| (offset + bytes).saturating_sub(self.bytes);
        let fits = |offset: u64| offset + bytes <= most && space.take(more(offset));
        // Behind the newest block, or, at the end of the file, in place of its oldest blocks.
        let offset = [self.end, 0].into_iter().find(|offset| fits(*offset))?;
        let grown = more(offset);
        self.bytes += grown;
        // Blocks give way in their order, so that those that stay follow each other.
        while self
            .blocks
            .iter()
            .any(|block| block.offset < offset + bytes && offset < block.offset + block.bytes as u64)
        {
            let Some(oldest) = self.blocks.pop_front() else { break };
            self.lost_to = oldest.last_sequence;
        }
        Some(offset)
    }

    fn read(&mut self, block: FileBlock) -> io::Result<Vec<RunEventLine>> {
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        let mut content = vec![0; block.bytes];
        file.seek(SeekFrom::Start(block.offset))?;
        file.read_exact(&mut content)?;
        decoded(&content, block.count).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Returns events as they are in the file.
fn encoded(records: &[RunEventRecord]) -> io::Result<Vec<u8>> {
    let bytes: usize = records.iter().map(|record| HEAD_BYTES + record.json.len()).sum();
    let mut content = Vec::with_capacity(bytes);
    for record in records {
        let length = u32::try_from(record.json.len()).map_err(io::Error::other)?;
        content.extend_from_slice(&record.event.sequence.to_le_bytes());
        content.push(u8::from(record.completes_sequence));
        content.extend_from_slice(&length.to_le_bytes());
        content.extend_from_slice(record.json.as_bytes());
    }
    Ok(content)
}

/// Returns the events of a block; `None` if it is not as it was written.
fn decoded(mut content: &[u8], count: usize) -> Option<Vec<RunEventLine>> {
    let mut lines = Vec::with_capacity(count);
    for _ in 0..count {
        let (sequence, rest) = content.split_first_chunk()?;
        let ([completes], rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (json, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        lines.push(RunEventLine {
            sequence: u64::from_le_bytes(*sequence),
            completes_sequence: *completes != 0,
            json: std::str::from_utf8(json).ok()?.into(),
        });
        content = rest;
    }
    Some(lines)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::event::{Event, StreamEvent};

    /// Returns an event with this JSON.
    fn record(sequence: u64, completes_sequence: bool, json: &Arc<str>) -> RunEventRecord {
        let event = Event::Warning { message: String::new() };
        let event = StreamEvent { sequence, time: UNIX_EPOCH, run: None, parent: None, event };
        RunEventRecord { event: Arc::new(event), json: Arc::clone(json), completes_sequence }
    }

    fn sequences(found: &StoredLines) -> Vec<u64> {
        found.lines.iter().map(|line| line.sequence).collect()
    }

    #[test]
    fn events_are_found_by_sequence_and_position() {
        let file = RunEventFile::new(&RunFileSpace::new(limits::SERVE_RUN_FILES_BYTES));
        assert_eq!(file.lines_after(0), StoredLines { first: 0, lost_to: 0, lines: vec![] });
        let json: Arc<str> = "{\"é\":1}".into();
        file.append(&[record(1, true, &json), record(2, false, &json), record(2, true, &json)]);
        file.append(&[record(3, true, &json), record(5, true, &json)]);
        let found = file.lines_after(0);
        assert_eq!((found.first, found.lost_to, sequences(&found)), (0, 0, vec![1, 2, 2]));
        assert_eq!(found.lines[1], RunEventLine { sequence: 2, completes_sequence: false, json });
        for (after, first, expected) in [(1, 1, vec![2, 2]), (2, 3, vec![3, 5]), (4, 4, vec![5]), (5, 5, vec![])] {
            let found = file.lines_after(after);
            assert_eq!((found.first, sequences(&found)), (first, expected), "after {after}");
        }
        for (position, expected) in [(0, vec![1, 2, 2]), (2, vec![2]), (3, vec![3, 5]), (4, vec![5]), (5, vec![])] {
            let found = file.lines_from(position);
            assert_eq!((found.first, sequences(&found)), (position, expected), "from {position}");
        }
    }

    #[test]
    fn file_is_bounded_and_keeps_the_newest_events() {
        let space = RunFileSpace::new(limits::SERVE_RUN_FILES_BYTES);
        let file = RunEventFile::new(&space);
        // Eleven of these fit, and no twelfth.
        let json: Arc<str> = "x".repeat(usize::try_from(limits::SERVE_RUN_FILE_BYTES / 12).unwrap()).into();
        for n in 1..=13 {
            file.append(&[record(n, true, &json)]);
        }
        assert_eq!(file.lost(), 2, "the last two are in the place of the first two");
        assert!(file.state().bytes <= limits::SERVE_RUN_FILE_BYTES);
        let found = file.lines_after(0);
        assert_eq!((found.first, found.lost_to, sequences(&found)), (2, 2, vec![3]));
        assert_eq!(found.lines[0].json, json, "nothing was written over it");
        assert_eq!(file.lines_from(0).first, 2, "the event at that position is gone");
        for n in 3..13 {
            assert_eq!(sequences(&file.lines_from(n)), [n + 1]);
        }
        drop(file);
        assert_eq!(space.0.load(Ordering::SeqCst), limits::SERVE_RUN_FILES_BYTES, "the space is free again");
    }

    #[test]
    fn files_of_all_runs_share_their_space() {
        let space = RunFileSpace::new(limits::SERVE_RUN_FILES_BYTES);
        let json: Arc<str> = "x".repeat(1_000 - HEAD_BYTES).into();
        assert!(space.take(limits::SERVE_RUN_FILES_BYTES - 2_500));
        let [first, second] = [RunEventFile::new(&space), RunEventFile::new(&space)];
        for n in 1..=3 {
            first.append(&[record(n, true, &json)]);
        }
        // The file does not grow any more: the third event is in the place of the first one.
        assert_eq!((first.lost(), sequences(&first.lines_after(0))), (1, vec![2]));
        assert_eq!(sequences(&first.lines_after(2)), [3]);
        second.append(&[record(1, true, &json)]);
        assert_eq!(second.lines_after(0), StoredLines { first: 1, lost_to: 1, lines: vec![] });
        let failure = second.failure().unwrap();
        assert!(first.failure().is_none() && failure.starts_with("those of all runs have 2147483648 bytes already"));
        assert!(failure.contains("lower --max-runs") && !failure.contains("temporary files"), "{failure}");
        let disk = RunFileError::from(io::Error::from(io::ErrorKind::StorageFull)).to_string();
        assert!(disk.ends_with("; free space in the folder for temporary files"), "{disk}");
        drop(first);
        second.append(&[record(2, true, &json)]);
        let found = second.lines_after(0);
        assert_eq!((found.first, found.lost_to, sequences(&found), second.lost()), (1, 1, vec![2], 1));
    }
}
