//! Limits of the Agent2Agent protocol: the server for clients, and the agents of other hosts that ours give tasks.

use std::time::Duration;

use super::{MCP_MESSAGE_VALUES, SERVE_MESSAGE_CHARS, TASK_ATTACHED_BYTES};

// ---- the A2A server

/// The number of tasks that were not accepted and are remembered: their clients may still ask why. Those that began are
/// remembered as long as their runs, see [`SERVE_RUNS_ENDED`](super::SERVE_RUNS_ENDED).
pub const A2A_REJECTED_TASKS: usize = 100;
/// The number of message ids that are remembered, the newest ones: a client repeats a message within minutes.
pub const A2A_MESSAGE_IDS: usize = 1_024;
/// The maximum bytes of a message id, a context id and a page token: several times those of a UUID with a prefix.
pub const A2A_ID_BYTES: usize = 255;
/// The maximum number of parts of one message: the task, and the files that may be attached to it.
pub const A2A_PARTS: usize = 128;
/// The maximum number of messages in the history of a task; the oldest ones are left out.
pub const A2A_HISTORY_MESSAGES: usize = 64;
/// The maximum characters of the texts of one message in a history; the rest is cut.
pub const A2A_HISTORY_CHARS: usize = SERVE_MESSAGE_CHARS / 8;
/// The maximum number of tasks in one list, as the protocol says.
pub const A2A_PAGE_TASKS: u32 = 100;
/// The number of tasks in one list unless the client sets it, as the protocol says.
pub const A2A_PAGE_TASKS_DEFAULT: u32 = 50;
/// The maximum bytes of the tasks in one list, with their history and answers; one task may have more.
pub const A2A_PAGE_BYTES: usize = 8 << 20;

/// The maximum number of addresses that are told of the updates of one task.
pub const A2A_PUSH_CONFIGS: usize = 8;
/// The maximum bytes of a token, and of the credentials, that go with updates: those of a signed token with many claims.
pub const A2A_PUSH_TOKEN_BYTES: usize = 2 << 10;
/// The number of attempts to send an update to one address.
pub const A2A_PUSH_ATTEMPTS: u32 = 3;
/// The pause before the second attempt; it doubles before each further one.
pub const A2A_PUSH_PAUSE: Duration = Duration::from_secs(1);
/// The time in which an address must have taken an update: it stores it, and works on it later.
pub const A2A_PUSH_TIME: Duration = Duration::from_secs(10);
/// The number of updates in a row that an address may not take; after them it is forgotten.
pub const A2A_PUSH_FAILURES: u32 = 5;

// ---- agents of other hosts

/// The maximum bytes of an agent card: several hundred skills.
pub const A2A_CARD_BYTES: usize = 256 << 10;
/// The number of addresses in a card that are looked at.
pub const A2A_INTERFACES: usize = 16;
/// The maximum characters of one text of a card, or of an error, that a person is shown.
pub const A2A_SHOWN_CHARS: usize = 500;
/// The time of a request that is answered at once, such as that for the state of a task.
pub const A2A_REQUEST_TIME: Duration = Duration::from_secs(60);
/// The maximum bytes of one answer, of one update of a task, and of all updates without their files: the answer with files
/// that are not kept, in base64.
pub const A2A_REPLY_BYTES: usize = 8 << 20;
/// The maximum number of values in one answer and in one update, lists and objects counted with their content, as in a
/// message of an MCP server.
pub const A2A_REPLY_VALUES: usize = MCP_MESSAGE_VALUES;
/// The bytes that each value of a result counts beside its text: it takes more in memory, and is kept until the end of the
/// task.
pub const A2A_VALUE_BYTES: usize = 32;
/// The maximum bytes of one task for another host: the task, and its images and PDFs in base64.
pub const A2A_REQUEST_BYTES: u64 = TASK_ATTACHED_BYTES / 3 * 4 + (2 << 20);
/// The maximum bytes of one stream of updates.
pub const A2A_STREAM_BYTES: u64 = 64 << 20;
/// The maximum number of updates in one stream. A stream that sends a word at a time has about as many for a long answer.
pub const A2A_STREAM_ITEMS: usize = 50_000;
/// The longest silence of a stream, after which the task is asked for: servers send a comment every 15 seconds.
pub const A2A_STREAM_IDLE: Duration = Duration::from_secs(60);
/// The longest time of a task at another host, unless the budget ends it before.
pub const A2A_TASK_TIME: Duration = Duration::from_secs(60 * 60);
/// The pause before a task is first asked for; it doubles each time, up to [`A2A_POLL_PAUSE`].
pub const A2A_FIRST_POLL_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause before a task is asked for again.
pub const A2A_POLL_PAUSE: Duration = Duration::from_secs(10);
/// The number of failed requests in a row for a task that is at work; after one more it counts as lost.
pub const A2A_POLL_FAILURES: u32 = 5;
/// The maximum bytes of an answer's text: as much as a task may have.
pub const A2A_ANSWER_BYTES: usize = 1 << 20;
/// The maximum number of results of a task, and of the parts of one. Pieces of text are one part together.
pub const A2A_ANSWER_PARTS: usize = 1_024;
/// The maximum bytes of an id that another host makes.
pub const A2A_REMOTE_ID_BYTES: usize = 1 << 10;
/// The number of questions that an agent of another host may ask about one task: a person would give up sooner.
pub const A2A_QUESTIONS: usize = 32;
