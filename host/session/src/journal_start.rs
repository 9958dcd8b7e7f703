//! The beginning of a journal that is read from a source.

use std::path::Path;

use super::{
    SessionError, SessionHeader,
    journal_source::JournalSource,
    journal_status::SessionStatus,
    session_header::{SessionHeaderError, read_header},
};
use shelly_core::limits;

/// The number of bytes in which most headers end.
pub(super) const HEADER_CHUNK: usize = 4 << 10;

/// The number of bytes of further lines that are read at once.
pub(super) const CHUNK: usize = 256 << 10;

/// Reads the first bytes of a journal into an empty buffer, and returns the header and the offset of the second line. The
/// buffer may hold further bytes. `location` is named in errors.
pub(super) fn read_start(
    source: &mut dyn JournalSource,
    buffer: &mut Vec<u8>,
    location: &Path,
) -> Result<(SessionHeader, usize), SessionError> {
    for most in [HEADER_CHUNK, limits::SESSION_HEADER_BYTES] {
        while buffer.len() < most && memchr::memchr(b'\n', buffer).is_none() {
            let left = most - buffer.len();
            if source.read_more(buffer, left)? == 0 {
                break;
            }
        }
    }
    parse_start(buffer, location)
}

/// Parses the header at the beginning of these bytes, and returns it with the offset of the second line.
pub(super) fn parse_start(bytes: &[u8], location: &Path) -> Result<(SessionHeader, usize), SessionError> {
    let damaged = |reason: String| SessionError::Damaged { path: location.to_owned(), line: 1, byte: 0, reason };
    let end = memchr::memchr(b'\n', bytes).ok_or_else(|| damaged("the header has no end".into()))?;
    match read_header(&bytes[..end]) {
        Ok(header) => Ok((header, end + 1)),
        Err(SessionHeaderError::Newer(version)) => Err(SessionError::Newer { path: location.to_owned(), version }),
        Err(SessionHeaderError::Damaged(reason)) => Err(damaged(reason)),
    }
}

/// Reads a whole journal, and returns its header and its status.
pub(super) fn describe_source(
    source: &mut dyn JournalSource,
    location: &Path,
) -> Result<(SessionHeader, SessionStatus), SessionError> {
    let mut buffer = Vec::new();
    let (header, start) = read_start(source, &mut buffer, location)?;
    buffer.drain(..start);
    let mut status = SessionStatus::Empty;
    loop {
        // Complete lines are looked at once; the rest waits for its end.
        if let Some(end) = memchr::memrchr(b'\n', &buffer) {
            status = SessionStatus::from_lines(&buffer[..end]).unwrap_or(status);
            buffer.drain(..=end);
        }
        if buffer.len() > limits::SESSION_LINE_BYTES + limits::SESSION_HEADER_BYTES {
            return Ok((header, status));
        }
        if source.read_more(&mut buffer, CHUNK)? == 0 {
            return Ok((header, status));
        }
    }
}
