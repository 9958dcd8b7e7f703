//! Limits of the HTTP server, which serves the HTTP API and MCP clients, and of the runs that it hosts.

use std::time::Duration;

use super::{CHANGE_DETAIL_CHARS, MCP_MESSAGE_VALUES, TASK_ATTACHED_BYTES};

// ---- HTTP server

/// The time in which the head of an HTTP request must arrive, and then its body.
pub const SERVE_REQUEST_TIME: Duration = Duration::from_secs(30);
/// The maximum bytes of the head of an HTTP request.
pub const SERVE_HEAD_BYTES: usize = 64 << 10;
/// The time in which a client must take a piece of its answer.
pub const SERVE_WRITE_TIME: Duration = Duration::from_secs(30);
/// The number of concurrent HTTP connections. For one more, the oldest connection that waits for a request is closed; while
/// all are active, it waits.
pub const SERVE_CONNECTIONS: usize = 256;
/// The number of HTTP connections that are kept for their next request; beyond it each ends with its answer, so that idle
/// ones never take up all connections. A server with other connections keeps the same share of them.
pub const SERVE_CONNECTIONS_KEPT: usize = SERVE_CONNECTIONS * 3 / 4;
/// The pause after a connection could not be accepted: too many files are open, and some will be closed.
pub const SERVE_ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The interval at which a silent stream sends a keep-alive: proxies close one after a minute.
pub const SERVE_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The time after which a client resumes a broken stream of events.
pub const SERVE_STREAM_RETRY: Duration = Duration::from_secs(1);
/// The bytes of events after which a stream is written rather than filled further: a few packets.
pub const SERVE_STREAM_CHUNK_BYTES: usize = 64 << 10;
/// The minimum bytes of a bearer token that a person chooses: a shorter one can be guessed.
pub const SERVE_TOKEN_BYTES: usize = 16;
/// The random bytes of a bearer token that the host makes.
pub const SERVE_TOKEN_RANDOM_BYTES: usize = 32;
/// The maximum bytes of a file that holds a bearer token.
pub const SERVE_TOKEN_FILE_BYTES: u64 = 4 << 10;
/// The time in which a client must complete the TLS handshake: two exchanges of a few packets, even with lost ones.
pub const SERVE_HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The maximum bytes of a file with a certificate chain or a key: a chain of a dozen certificates.
pub const SERVE_TLS_FILE_BYTES: u64 = 256 << 10;
/// The interval at which the files of the certificate and its key are looked at: they are renewed weeks before they expire.
pub const SERVE_TLS_LOOK: Duration = Duration::from_secs(60);
/// The time that open streams and answers have to end after a signal.
pub const SERVE_STOP_GRACE: Duration = Duration::from_secs(2);

// ---- requests to the HTTP API

/// The maximum bytes of a request's body: an answer in a person's own words, a message, or a question's choices.
pub const SERVE_BODY_BYTES: usize = 256 << 10;
/// The maximum bytes of the body that starts a run: the files of its task in base64, and the task.
pub const SERVE_RUN_BODY_BYTES: usize = TASK_ATTACHED_BYTES as usize / 3 * 4 + (1 << 20);
/// The maximum number of values in a body of JSON, lists and objects counted with their content, as in a message of an MCP
/// server: a body of small ones would take a hundred times its bytes once it is parsed.
pub const SERVE_BODY_VALUES: usize = MCP_MESSAGE_VALUES;
/// The number of bodies of more than [`SERVE_BODY_BYTES`] that are read at once; others wait. Each may have
/// [`SERVE_RUN_BODY_BYTES`].
pub const SERVE_RUN_BODIES: usize = 4;
/// The maximum bytes of an idempotency key: four times those of a UUID with a prefix.
pub const SERVE_KEY_BYTES: usize = 255;
/// The number of idempotency keys that are remembered, the newest ones: a client repeats a request within seconds.
pub const SERVE_KEYS: usize = 1_024;
/// The maximum number of sessions in one list.
pub const SERVE_SESSIONS: usize = 200;
/// The maximum number of messages of a session that are shown: the newest ones.
pub const SERVE_SESSION_MESSAGES: usize = 200;
/// The maximum characters of one such message; the rest is cut. As much as a question about changes shows.
pub const SERVE_MESSAGE_CHARS: usize = CHANGE_DETAIL_CHARS;
/// The number of streams of the recorded events of sessions that are read at once; a further one is refused. Each holds a
/// few bytes for each line of its journal, and a thread while it reads.
pub const SERVE_SESSION_STREAMS: usize = 16;
/// The maximum number of messages of a conversation that a client sends with a request: more than a person writes in a
/// month, and each becomes an entry of the agent's conversation.
pub const SERVE_CONVERSATION_MESSAGES: usize = 2_000;
/// The maximum bytes of the address of an image that a vendor fetches: as long as servers take.
pub const SERVE_IMAGE_ADDRESS_BYTES: usize = 8 << 10;
/// The maximum characters of a tool's result in an event for a user interface; the rest is in the session.
pub const SERVE_TOOL_RESULT_CHARS: usize = 16_000;
/// The maximum bytes of an id that a client chooses for a conversation or a run: four times those of a UUID with a prefix.
pub const SERVE_CLIENT_ID_BYTES: usize = 255;
/// The time after which a client that was refused for want of room tries again.
pub const SERVE_RETRY_AFTER: Duration = Duration::from_secs(5);

// ---- hosted runs

/// The number of runs at work at once, unless the command line sets it: each holds agents, and plugins in memory.
pub const SERVE_RUNS: usize = 16;
/// The largest number of runs at work at once that the command line can set.
pub const SERVE_RUNS_CEILING: usize = 1_024;
/// The number of ended runs that are remembered with their events, the newest ones, or as many as may be at work, if that
/// is more. Their sessions stay on the disk.
pub const SERVE_RUNS_ENDED: usize = 100;
/// The number of events of a run that are kept in memory for readers that come late or again: the newest ones.
pub const SERVE_RUN_EVENTS: usize = 16_384;
/// The maximum bytes of these events: with [`SERVE_RUNS_ENDED`] runs, 400 MiB at most.
pub const SERVE_RUN_EVENT_BYTES: usize = 4 << 20;
/// The bytes of the oldest events that leave memory for the file of the run together; each is read back as a whole.
pub const SERVE_RUN_BLOCK_BYTES: usize = 256 << 10;
/// The number of events that leave memory for the file of the run together.
pub const SERVE_RUN_BLOCK_EVENTS: usize = SERVE_RUN_EVENTS / 8;
/// The maximum bytes of the file of events that have left memory, of each run: those of a million deltas of a model.
pub const SERVE_RUN_FILE_BYTES: u64 = 256 << 20;
/// The maximum bytes of these files of all runs together. While they are full, a file does not grow: newer events take the
/// place of its oldest ones.
pub const SERVE_RUN_FILES_BYTES: u64 = 2 << 30;
/// The number of streams of events that are read at once; a further one is refused. One that nobody reads has a piece of
/// [`SERVE_STREAM_CHUNK_BYTES`], a buffer of as much, and [`SERVE_RUN_BLOCK_BYTES`] of events that have left memory:
/// 384 MiB if all are like that.
pub const SERVE_WATCHERS: usize = 1_024;
/// The number of concurrent HTTP connections of a server with runs, instead of [`SERVE_CONNECTIONS`]: those that read all
/// streams, and as many as other servers have. It is lowered to what the system allows this process to open.
pub const SERVE_RUN_CONNECTIONS: usize = SERVE_WATCHERS + SERVE_CONNECTIONS;
/// The maximum characters of a task in the description of its run; the rest is in the session.
pub const SERVE_TASK_CHARS: usize = 2_000;
/// The maximum characters of an answer in the list of all runs, as of a task; the whole answer is with its run.
pub const SERVE_LISTED_ANSWER_CHARS: usize = SERVE_TASK_CHARS;
/// The maximum number of warnings of a run; further ones are among its events alone.
pub const SERVE_WARNINGS: usize = 32;
/// The time that a question waits for an answer over HTTP, unless the command line sets it; after that it is declined. A
/// person who has started a run looks at it within the hour.
pub const SERVE_QUESTION_TIME: Duration = Duration::from_secs(60 * 60);
/// The time in which the events of a run are taken once it has ended.
pub const SERVE_END_TIME: Duration = Duration::from_secs(2);
/// The time in which interrupted runs end after a signal: within the grace that a signal leaves a command.
pub const SERVE_INTERRUPT_TIME: Duration = Duration::from_secs(1);
