//! Limits of traces.

use std::time::Duration;

/// The bytes of lines in one compressed block of a trace's page: a browser unpacks one after the other and stays responsive.
pub const TRACE_BLOCK_BYTES: usize = 1 << 20;
/// The maximum bytes of lines in a trace's page; later ones are left out with a warning. A browser holds several times as
/// much.
pub const TRACE_PAGE_BYTES: u64 = 256 << 20;
/// The maximum number of runs in a trace; further ones are counted. About 1 KiB of memory each.
pub const TRACE_RUNS: usize = 20_000;
/// The maximum number of steps in a trace; further ones are counted. About 200 bytes of memory each.
pub const TRACE_STEPS: usize = 200_000;
/// The maximum number of runs of a trace that are open at once; further ones are left out with a note. More than
/// [`AGENTS_PER_RUN_CEILING`](super::AGENTS_PER_RUN_CEILING); about 1 KiB of memory each.
pub const TRACE_OPEN_RUNS: usize = 16_384;
/// The maximum number of calls of one run that are open or wait for their results; of more, one is complete without its
/// result. Twice [`CALLS_IN_REPLY`](super::CALLS_IN_REPLY).
pub const TRACE_OPEN_CALLS: usize = 2_048;
/// The number of ids of runs that are remembered, since a later process may use them again; further runs get ids with a
/// number. About 16 bytes of memory each.
pub const TRACE_KNOWN_IDS: usize = 100_000;
/// The maximum number of ranges of messages that a request names in a log of Inspect; the oldest are left out. A run has one
/// for each time that other runs spoke in between, and each of its requests names them all.
pub const TRACE_INPUT_RANGES: usize = 64;
/// The maximum characters of a text that stands in a log of Inspect wherever it occurs; a longer one stands there once. The
/// bound of Inspect itself.
pub const TRACE_INLINE_CHARS: usize = 100;
/// The number of long texts of a log of Inspect that are remembered, so that each is written once. About 80 bytes of memory
/// each.
pub const TRACE_ATTACHMENTS: usize = 100_000;
/// The maximum bytes of a task, an error or a reason in a trace; the rest is cut.
pub const TRACE_TEXT_BYTES: usize = 2 << 10;
/// The maximum bytes of a text in an exported span; the rest is cut. Collectors refuse requests of more than a few
/// megabytes.
pub const TRACE_ATTRIBUTE_BYTES: usize = 64 << 10;
/// The maximum number of steps of each run that are compared; later ones are left out with a note.
pub const TRACE_COMPARED_STEPS: usize = 20_000;
/// The maximum time for which the shortest difference of two runs is searched; after it a longer one is shown.
pub const TRACE_COMPARISON_TIME: Duration = Duration::from_secs(5);
/// The maximum number of steps shown in a comparison: a few screens.
pub const TRACE_DIFFERENCES_SHOWN: usize = 200;
/// The number of equal steps shown around a difference.
pub const TRACE_CONTEXT_STEPS: usize = 3;
/// The maximum number of runs in the summary of a trace; the rest is counted.
pub const TRACE_RUNS_SHOWN: usize = 200;
/// The maximum characters of a reason in the summary of a trace; the rest is cut. One line of a terminal.
pub const TRACE_REASON_CHARS: usize = 100;
/// The maximum number of failed calls in the summary of a trace; the rest is counted.
pub const TRACE_FAILURES_SHOWN: usize = 20;
/// The time for which a failure of the program that opens a page is awaited; one that still works then has not failed.
pub const TRACE_OPENER_TIME: Duration = Duration::from_secs(2);
/// The pause between two looks at that program.
pub const TRACE_OPENER_PAUSE: Duration = Duration::from_millis(20);
