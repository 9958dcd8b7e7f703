//! Limits of sessions on disk and of their display.

use std::time::Duration;

use super::CHAT_BYTES;

// ---- sessions on disk

/// The maximum number of sessions of one project. Listing them stays quick, and nobody can tell more apart.
pub const SESSIONS: usize = 100_000;
/// The maximum bytes of all sessions of one project; beyond it no session is created, and a person is asked to remove some.
pub const SESSIONS_BYTES: u64 = 8 << 30;
/// The maximum delay between a write to a session and its sync, if no caller waits for it: thus a call that follows a reply
/// at once waits for one sync, not two.
pub const SESSION_SYNC_DELAY: Duration = Duration::from_millis(5);
/// The maximum bytes of one session, including attachments: what an endless run may fill before it ends.
pub const SESSION_BYTES: u64 = 2 << 30;
/// The maximum bytes of one line of a journal: the largest record is a rewritten conversation of small messages.
pub const SESSION_LINE_BYTES: usize = 64 << 20;
/// The maximum bytes of one record as JSON, including attachments: a whole conversation with its media as base64.
pub const SESSION_RECORD_BYTES: usize = 2 * CHAT_BYTES;
/// The maximum bytes that wait for the disk. A disk that is further behind will not catch up.
pub const SESSION_PENDING_BYTES: usize = 64 << 20;
/// The bytes of a line beyond which its long strings become attachments.
pub const SESSION_INLINE_LINE_BYTES: usize = 16 << 10;
/// The bytes beyond which a string of a long line becomes an attachment.
pub const SESSION_INLINE_STRING_BYTES: usize = 4 << 10;
/// The bytes beyond which a system prompt becomes an attachment in any line: a thousand agents share one.
pub const SESSION_INLINE_PROMPT_BYTES: usize = 1 << 10;
/// The maximum bytes of a header; a longer one is not read.
pub const SESSION_HEADER_BYTES: usize = 256 << 10;
/// The maximum bytes of the command line's paths and names in a header; longer ones must be given again on resume.
pub const SESSION_OPTIONS_BYTES: usize = 32 << 10;
/// The maximum number of folders for which the configs of earlier sessions are remembered; the oldest are removed.
pub const SESSION_FOLDERS: usize = 256;
/// The maximum number of remembered configs per folder; the oldest are removed.
pub const SESSION_FOLDER_CONFIGS: usize = 8;
/// The maximum bytes of the file that holds them; a larger one is not read.
pub const SESSION_FOLDERS_BYTES: u64 = 8 << 20;
/// The maximum number of projects with sessions that are remembered for a list of all; the oldest are removed.
pub const SESSION_PROJECTS: usize = 256;
/// The maximum bytes of the file that holds their paths; a larger one is not read.
pub const SESSION_PROJECTS_BYTES: u64 = 8 << 20;
/// The bytes at the end of a journal that are read to determine how its last run ended.
pub const SESSION_TAIL_BYTES: usize = 64 << 10;
/// The maximum characters of a session's title.
pub const SESSION_TITLE_CHARS: usize = 200;
/// The maximum characters of a task from an earlier session in an agent's prompt.
pub const RECALLED_TASK_CHARS: usize = 2_000;
/// The maximum characters of an answer from an earlier session in an agent's prompt.
pub const RECALLED_ANSWER_CHARS: usize = 8_000;
/// The maximum characters of an earlier session in an agent's prompt: the newest entries. About 5,000 tokens.
pub const RECALLED_CHARS: usize = 20_000;
/// The maximum bytes of a session's name.
pub const SESSION_NAME_BYTES: usize = 64;
/// The minimum bytes of a credential that is searched for in written text; shorter ones would match text that is no secret.
pub const SESSION_SECRET_BYTES: usize = 8;
/// The characters before and after a match in the excerpt that is shown.
pub const SESSION_EXCERPT_CHARS: usize = 80;
/// The maximum characters of a searched text.
pub const SESSION_SEARCH_CHARS: usize = 1_000;
/// The maximum number of files in one session that are counted. More attachments do not fit into [`SESSION_BYTES`].
pub const SESSION_FILES: usize = 2_500_000;
/// The number of attempts to lock a session: a process that lists sessions holds each lock briefly.
pub const SESSION_LOCK_TRIES: u32 = 5;
/// The pause between two attempts to lock a session.
pub const SESSION_LOCK_PAUSE: Duration = Duration::from_millis(10);
/// The maximum nesting depth of folders in a removed session: a session has one level, and foreign content seldom more. Each
/// level takes stack space.
pub const SESSION_FOLDERS_DEEP: u32 = 32;
/// The maximum number of unreadable sessions named in the warning of a search; the rest is counted.
pub const SESSIONS_LEFT_OUT_SHOWN: usize = 5;
/// The age up to which a measurement of all sessions is used when further ones are created: measuring ten thousand takes a
/// large part of a second.
pub const SESSION_USAGE_AGE: Duration = Duration::from_secs(10);
/// The fraction (one in this number) of the measured sessions that may be created before they are measured again.
pub const SESSION_USAGE_PART: usize = 16;
/// The age at which an incompletely created session, as a crash leaves it, is removed.
pub const SESSION_LEFTOVER_AGE: Duration = Duration::from_secs(3_600);

// ---- recorded events

/// The maximum bytes of one session's recorded events, about 300,000 events; beyond it none is recorded. They come in
/// addition to [`SESSION_BYTES`].
pub const SESSION_EVENTS_BYTES: u64 = 64 << 20;
/// The maximum bytes of one recorded event as JSON; a longer one is left out and counted. The longest are those of plugins
/// with their random bytes.
pub const SESSION_EVENT_BYTES: usize = 128 << 10;
/// The maximum number of recorded events with the same message of the journal: each is recorded once. Without this bound a
/// file that somebody else made would be read as many times its size.
pub const SESSION_MESSAGE_EVENTS: u32 = 4;
/// The maximum bytes of a message that is recorded with its event because the journal does not hold it; a longer one is left
/// out.
pub const SESSION_EVENT_MESSAGE_BYTES: usize = 64 << 10;
/// The maximum bytes of recorded events that wait for the disk; beyond it events are left out and counted. A run never waits
/// for them.
pub const SESSION_PENDING_EVENTS_BYTES: usize = 4 << 20;
/// The maximum delay between an event and its write: a person who reads a running session sees the last half second later.
pub const SESSION_EVENTS_DELAY: Duration = Duration::from_millis(500);
/// The time for which the end of a run waits until its session can be opened by others: a server may be away.
pub const SESSION_RELEASE_TIME: Duration = Duration::from_secs(2);
/// The number of newest messages and results whose place in the journal is remembered for their events, which follow at
/// once.
pub const SESSION_MESSAGE_PLACES: usize = 4_096;

// ---- display of sessions

/// The maximum characters of a call's arguments in `session show`; the rest is cut. One or two lines of a terminal.
pub const SESSION_CALL_CHARS: usize = 200;
/// The maximum characters of a call's result in `session show`; the rest is cut. Half a screen.
pub const SESSION_RESULT_CHARS: usize = 1_000;
/// The maximum characters of a journal line's description in a list of lines.
pub const SESSION_STEP_CHARS: usize = 100;
