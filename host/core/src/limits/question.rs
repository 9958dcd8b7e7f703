//! Limits of questions to a person.

use std::time::Duration;

/// The maximum number of open questions to a person; a further one waits. More than a person can review.
pub const OPEN_QUESTIONS: usize = 64;
/// The time that a question waits for its answer, including the wait for its turn: a person may be away for a night.
pub const QUESTION_TIME: Duration = Duration::from_secs(12 * 60 * 60);
/// The maximum bytes of a question's text: what still fits on one or two screens.
pub const QUESTION_BYTES: usize = 8 << 10;
/// The maximum bytes of a question's header, of an option's label and of a permission's subject.
pub const QUESTION_LABEL_BYTES: usize = 256;
/// The maximum bytes of an option's description.
pub const OPTION_DESCRIPTION_BYTES: usize = 1 << 10;
/// The maximum number of options of one question.
pub const QUESTION_OPTIONS: usize = 32;
/// The maximum characters of the details of a permission question; the rest is cut, and the cut is shown.
pub const PERMISSION_DETAIL_CHARS: usize = 4_000;
/// The maximum characters of the details of a question about file changes: [`DIFF_CHARS`](super::DIFF_CHARS) of diffs,
/// and the lines that name each change.
pub const CHANGE_DETAIL_CHARS: usize = 40_000;
/// The maximum characters of a question in an event.
pub const QUESTION_SUMMARY_CHARS: usize = 200;
/// The maximum bytes of an answer in a person's own words.
pub const ANSWER_BYTES: usize = 16 << 10;
/// The maximum number of permanently trusted subjects. A list that nobody can review protects nothing.
pub const TRUSTED_SUBJECTS: usize = 1_024;
/// The maximum number of events held back while a person is asked at the terminal; beyond it the run waits for the person.
pub const HELD_EVENTS: usize = 1_024;
