//! Limits of building plugins from their sources.

use std::time::Duration;

/// The maximum bytes of one line that a tool of a build writes; the rest of the line is dropped. Cargo describes an artifact in
/// one line.
pub const BUILD_LINE_BYTES: usize = 64 << 10;
/// The number of lines of such a tool that are kept to explain its failure: more than the message of any of them.
pub const BUILD_LINES_KEPT: usize = 200;
/// The number of such lines that wait to be shown; the tool waits when there are more.
pub const BUILD_LINES_WAITING: usize = 64;
/// The number of lines of a failed build that a chat shows: the first error of a compiler with its place in the source.
pub const BUILD_ERROR_LINES: usize = 12;
/// The maximum characters of each of these lines: two rows of a terminal.
pub const BUILD_ERROR_LINE_CHARS: usize = 200;
/// The time in which a tool must say its version. Python starts in less than a second on a busy machine.
pub const TOOL_VERSION_TIME: Duration = Duration::from_secs(20);
/// The maximum characters of a version that are shown.
pub const TOOL_VERSION_CHARS: usize = 80;
/// The maximum number of C files of one project that are found without being named: all stand on one command line.
pub const C_SOURCES: usize = 256;
/// The maximum bytes of the record of the last build: larger than that of a plugin with the most tools.
pub const BUILD_RECORD_BYTES: u64 = 1 << 20;
/// The number of characters of a tool's description beyond which a review notes it: each request to a model contains it.
pub const REVIEWED_DESCRIPTION_CHARS: usize = 2_000;
/// The maximum number of files and folders of one project that are watched for changes: all are looked at after each
/// [`WATCH_PAUSE`]. A project with more has files of a toolchain in it.
pub const WATCHED_FILES: usize = 20_000;
/// The time between two looks at the files of a project. A change counts once two looks in a row have found the same, so that
/// a build does not begin while an editor or a checkout still writes.
pub const WATCH_PAUSE: Duration = Duration::from_millis(250);
