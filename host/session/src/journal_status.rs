//! The status of a session, from the lines of its journal.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

use super::line_format::{LineEnvelope, checked};

/// The status of the last run that a person started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    /// No run has begun.
    Empty,
    /// A run is active, or was interrupted.
    Unfinished,
    /// The last run ended with an answer.
    Finished,
    /// The last run ended with an error.
    Failed,
}

impl SessionStatus {
    /// Returns the status that follows from the last of these lines which begins or ends a run that a person started; `None`
    /// if there is none. A cut line at the beginning is skipped.
    pub fn from_lines(lines: &[u8]) -> Option<Self> {
        lines_from_the_end(lines).find_map(of_line)
    }
}

/// Iterates over the lines of a text, the last one first.
fn lines_from_the_end(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut left = Some(text);
    std::iter::from_fn(move || {
        let text = left?;
        let start = memchr::memrchr(b'\n', text);
        left = start.map(|at| &text[..at]);
        Some(&text[start.map_or(0, |at| at + 1)..])
    })
}

/// Returns the status that follows from a line, if it is the beginning or the end of a run that a person started.
fn of_line(line: &[u8]) -> Option<SessionStatus> {
    #[derive(Deserialize)]
    struct RunEndLine {
        outcome: BTreeMap<String, IgnoredAny>,
    }
    // Skips parsing for most lines.
    memchr::memmem::find(line, b"\"top\":true")?;
    let text = checked(line).ok()?;
    let envelope: LineEnvelope<'_> =
        serde_json::from_str(text).ok().filter(|envelope: &LineEnvelope<'_>| envelope.top)?;
    match &*envelope.kind {
        "ended" => {
            let RunEndLine { outcome } = serde_json::from_str(text).ok()?;
            Some(if outcome.contains_key("failed") { SessionStatus::Failed } else { SessionStatus::Finished })
        }
        _ => Some(SessionStatus::Unfinished),
    }
}
