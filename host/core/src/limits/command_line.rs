//! Limits of the command line: the start of a run, `doctor`, and completion in shells.

use std::time::Duration;

// ---- start of a run

/// The time after which a person is told why a run has not begun. Starting with compiled code takes less.
pub const START_NOTICE_DELAY: Duration = Duration::from_secs(1);
/// The time after which a person is shown that a component is compiled. Most components take less.
pub const COMPILE_PROGRESS_DELAY: Duration = Duration::from_secs(1);
/// The time between two drawings of the line about components that are compiled: it counts seconds.
pub const COMPILE_PROGRESS_TICK: Duration = Duration::from_millis(250);

// ---- doctor

/// The time in which a model must have answered the question of `doctor`: a loaded local server needs some seconds, and a person
/// waits for the rest of the report.
pub const DOCTOR_MODEL_TIME: Duration = Duration::from_secs(30);
/// The time in which the servers of a cluster must have answered `doctor`: two attempts to connect. One that runs needs much
/// less.
pub const DOCTOR_CLUSTER_TIME: Duration = Duration::from_secs(10);
/// The maximum number of files and folders whose sizes are added up for one directory; beyond it the size is "at least". As many
/// sessions as a project can have.
pub const DOCTOR_DIRECTORY_ENTRIES: usize = 100_000;
/// The maximum number of lines below one finding; the rest is counted. More cannot be worked through at once.
pub const DOCTOR_DETAILS: usize = 50;
/// The maximum characters of one line of a finding; the rest is cut. About ten lines of a terminal.
pub const DOCTOR_LINE_CHARS: usize = 1_000;
/// The maximum number of lines of the newest session that the report of `doctor --bundle` describes: the last ones, which
/// show how it ended.
pub const DOCTOR_SESSION_LINES: usize = 500;

// ---- completion in shells

/// The maximum number of names of one kind, such as sessions, that are looked up for a shell. Nobody chooses among more.
pub const COMPLETED_NAMES: usize = 200;
/// The maximum characters of the description beside a name: it shares a line of the terminal with it.
pub const COMPLETED_DESCRIPTION_CHARS: usize = 60;
