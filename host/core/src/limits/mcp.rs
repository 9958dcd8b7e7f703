//! Limits of the MCP client, its logins, and the MCP server.

use std::time::Duration;

use super::{
    ARGUMENT_BYTES, CANCEL_GRACE, CHAT_SHELL_OUTPUT_BYTES, COMPLETION_TIME_CEILING, LOG_ENTRIES, MEDIA_BYTES,
    PARALLEL_TOOL_CALLS, QUESTION_TIME, RESULT_BYTES, SPECS_BYTES, TOOL_DESCRIPTION_BYTES,
};

// ---- MCP client

/// The maximum bytes of a server's name in a config: it begins the names of its tools, which have 64.
pub const MCP_SERVER_NAME_BYTES: usize = 24;
/// The maximum number of tools of one server. The largest known has about 150; 512 fill most of a model's context window.
pub const MCP_TOOLS: usize = 512;
/// The maximum number of processes of this program that start each other as MCP servers: a served config that starts itself
/// would never end.
pub const MCP_NESTED: u32 = 3;
/// The maximum bytes of a tool's name on its server, as the protocol recommends: approved names are recorded with a
/// project's other approvals, and longer ones would not fit.
pub const MCP_TOOL_NAME_BYTES: usize = 128;
/// The maximum number of prompts of one server: as many as tools, and more than a person can tell apart in a list.
pub const MCP_PROMPTS: usize = MCP_TOOLS;
/// The maximum bytes of what all prompts of one server say about themselves, as JSON: equal to that of tools.
pub const MCP_PROMPTS_BYTES: usize = SPECS_BYTES;
/// The maximum bytes of the name of a prompt, or of one of its arguments: a person types it.
pub const MCP_PROMPT_NAME_BYTES: usize = MCP_TOOL_NAME_BYTES;
/// The maximum bytes of the description of a prompt, or of one of its arguments: equal to that of a tool.
pub const MCP_PROMPT_DESCRIPTION_BYTES: usize = TOOL_DESCRIPTION_BYTES;
/// The maximum number of arguments of a prompt: each is a word of the command that a person types.
pub const MCP_PROMPT_ARGUMENTS: usize = 32;
/// The maximum number of messages of a prompt. Most have one; the others are short examples of a conversation.
pub const MCP_PROMPT_MESSAGES: usize = 64;
/// The maximum bytes of all texts of a prompt, with those of embedded resources: as many as of the output of a command that
/// a person gives an agent.
pub const MCP_PROMPT_BYTES: usize = CHAT_SHELL_OUTPUT_BYTES;
/// The maximum number of pages of one list. A server that returns one tool per page has more, and no reason for it.
pub const MCP_PAGES: usize = 64;
/// The maximum bytes of a server's page cursor.
pub const MCP_CURSOR_BYTES: usize = 4 << 10;
/// The time to start a server and complete the handshake: `npx` may have to download the server first.
pub const MCP_CONNECT_TIME: Duration = Duration::from_secs(60);
/// The time for all pages of a list.
pub const MCP_LIST_TIME: Duration = Duration::from_secs(30);
/// The maximum bytes of one message of a server: the largest medium as base64, with its frame.
pub const MCP_MESSAGE_BYTES: usize = RESULT_BYTES;
/// The maximum number of values in one message, lists and objects counted with their content: each takes about a hundred
/// bytes while the message is parsed, although it may be only two bytes long.
pub const MCP_MESSAGE_VALUES: usize = 250_000;
/// The maximum nesting depth in one message: the parser's limit is 127. A server's list of tools is read without deeper
/// content, any other answer is refused.
pub const MCP_MESSAGE_DEPTH: usize = 120;
/// The bytes of an endless message, or of blank lines before a message, that are skipped before the server is given up.
pub const MCP_SKIPPED_BYTES: usize = 4 * MCP_MESSAGE_BYTES;
/// The bytes at either end of an oversized message in which its id is searched for.
pub const MCP_ID_BYTES: usize = 256;
/// The maximum number of consecutive lines that are no messages: some servers print greetings and logs there.
pub const MCP_GARBAGE_LINES: u32 = 1_000;
/// The maximum number of unsolicited messages, including garbage, in one [`MCP_UNASKED_WINDOW`]. A thousand calls that each
/// report progress ten times per second send this many.
pub const MCP_UNASKED_MESSAGES: u32 = 10_000;
/// The window of [`MCP_UNASKED_MESSAGES`].
pub const MCP_UNASKED_WINDOW: Duration = Duration::from_secs(1);
/// The number of concurrent requests of a server that are answered; further ones are not.
pub const MCP_SERVER_REQUESTS: usize = 64;
/// The time in which a server must take a message from its pipe.
pub const MCP_WRITE_TIME: Duration = Duration::from_secs(30);
/// The bytes buffered between a server's pipe and its reader.
pub const MCP_PIPE_BYTES: usize = 64 << 10;
/// The number of concurrent calls of one server; others wait.
pub const MCP_CALLS: usize = 1_024;
/// The maximum number of abandoned calls whose cancellation is still to be sent to the server.
pub const MCP_CANCELLATIONS: usize = 1_024;
/// The number of times that a repeatable call is repeated after its connection broke.
pub const MCP_CALL_REPEATS: u32 = 1;
/// The maximum number of rounds in which a server may request more input before it answers a call.
pub const MCP_ROUNDS: u32 = 10;
/// The time of a call beyond the server's own: for a permit, the connection and the error report.
pub const MCP_CALL_GRACE: Duration = Duration::from_secs(5);
/// The maximum number of consecutive attempts to reconnect to a server before it is given up, until one of its tools is
/// called.
pub const MCP_RECONNECTS: u32 = 8;
/// The minimum duration of a connection whose end does not count as another consecutive failure.
pub const MCP_STEADY_TIME: Duration = Duration::from_secs(60);
/// The delay before a changed list is requested: a server that changes ten tools sends ten notifications.
pub const MCP_RELIST_PAUSE: Duration = Duration::from_millis(500);
/// The time that a server has to end once its pipe is closed.
pub const MCP_CLOSE_TIME: Duration = Duration::from_secs(2);
/// The number of lines of a server's standard error that are kept to explain its end: the last ones.
pub const MCP_STDERR_LINES: usize = 10;
/// The maximum bytes of one such line; the rest is cut.
pub const MCP_STDERR_LINE_BYTES: usize = 500;
/// The maximum number of lines of one process's standard error that are logged; later ones are read and dropped.
pub const MCP_STDERR_LOGGED: u32 = LOG_ENTRIES;
/// The maximum number of questions of a server, to the model or to a person, during one call.
pub const MCP_ASKS_PER_CALL: u32 = 8;
/// The maximum number of such questions of one server per minute, over all calls.
pub const MCP_ASKS_PER_MINUTE: u32 = 60;
/// The window of [`MCP_ASKS_PER_MINUTE`].
pub const MCP_ASK_WINDOW: Duration = Duration::from_secs(60);
/// The maximum bytes of one such question, including media.
pub const MCP_ASK_BYTES: usize = 4 << 20;
/// The largest number of characters of a result for a model that a config can set: with four bytes each, one whole message.
pub const MCP_OUTPUT_CHARS_CEILING: usize = RESULT_BYTES / 4;
/// The maximum number of fields of one form that a server has a person fill in: each is a question.
pub const MCP_FORM_FIELDS: usize = 16;
/// The maximum number of folders that a server is told.
pub const MCP_ROOTS: usize = 256;
/// The number of concurrent requests to one HTTP server that wait for the beginning of their answer.
pub const MCP_HTTP_REQUESTS: usize = 64;
/// The maximum number of consecutive attempts to resume a stream of such a server.
pub const MCP_STREAM_RETRIES: usize = 8;
/// The longest duration, and the longest silence, of a stream of such a server: most are silent until something changes.
pub const MCP_STREAM_TIME: Duration = COMPLETION_TIME_CEILING;
/// The maximum bytes of such a server's session id, and of the event id from which a stream is resumed.
pub const MCP_SESSION_ID_BYTES: usize = 1 << 10;

// ---- MCP server

/// The number of concurrent calls of one client: equal to those of one reply of a model.
pub const MCP_SERVE_CALLS: usize = PARALLEL_TOOL_CALLS;
/// The maximum number of queued calls of one client; further ones are refused. Clients send up to a thousand at once.
pub const MCP_SERVE_CALLS_WAITING: usize = 1_024;
/// The number of concurrent calls of all clients: each HTTP request without a session counts as a separate client.
pub const MCP_SERVE_CALLS_OF_ALL: usize = 64;
/// The maximum number of messages that a client over pipes has not read; its input is not read until it has.
pub const MCP_SERVE_UNREAD: usize = 64;
/// The maximum number of progress notifications, and of log lines, of one call per second; further ones are dropped.
pub const MCP_SERVE_TOLD_PER_SECOND: u32 = 20;
/// The window of [`MCP_SERVE_TOLD_PER_SECOND`].
pub const MCP_SERVE_TOLD_WINDOW: Duration = Duration::from_secs(1);
/// The maximum characters of a progress message.
pub const MCP_SERVE_TOLD_CHARS: usize = 200;
/// The time that active calls have to end after their client has closed its pipe: a script that pipes in a few lines reads
/// the results.
pub const MCP_SERVE_CLOSE_TIME: Duration = CANCEL_GRACE;
/// The maximum number of calls that wait for a person's answer between two requests of their client, as in protocol version
/// 2026-07-28.
pub const MCP_SERVE_PARKED: usize = 16;
/// The time that such a call waits.
pub const MCP_SERVE_PARK_TIME: Duration = Duration::from_secs(10 * 60);
/// The wall time of an agent that is called as a tool; its own budget bounds it earlier.
pub const MCP_SERVE_AGENT_TIME: Duration = QUESTION_TIME;
/// The number of resources on one page of a list.
pub const MCP_SERVE_PAGE: usize = 100;
/// The number of sessions, the newest ones, whose attachments are listed.
pub const MCP_SERVE_SESSIONS: usize = 100;
/// The maximum bytes of an attachment that is served; a larger one is not listed. Its base64 fits into a message that
/// clients accept.
pub const MCP_SERVE_RESOURCE_BYTES: usize = MEDIA_BYTES;
/// The maximum bytes of the name of a resource, a prompt or a page: none of this host has more.
pub const MCP_SERVE_NAME_BYTES: usize = 1 << 10;
/// The interval at which the folders of plugins and skills are checked for changes.
pub const MCP_SERVE_LOOK: Duration = Duration::from_secs(1);
/// The interval between two checks of changed files that are not served yet: a person may have approved them.
pub const MCP_SERVE_LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The maximum bytes of one HTTP request's body: arguments, and the answer to a question with them.
pub const MCP_SERVE_BODY_BYTES: usize = 4 * ARGUMENT_BYTES;
/// The number of concurrent HTTP sessions. For one more, the least recently used session without a running request is ended;
/// while all are active, it is refused.
pub const MCP_SERVE_HTTP_SESSIONS: usize = 64;
/// The time without any message after which an HTTP session ends.
pub const MCP_SERVE_IDLE_TIME: Duration = Duration::from_secs(30 * 60);
/// The time after which a client resumes a broken stream.
pub const MCP_SERVE_RETRY: Duration = Duration::from_secs(3);

// ---- OAuth of the MCP client

/// The maximum time from the sending of one request of a login to the end of its answer.
pub const OAUTH_TIME: Duration = Duration::from_secs(30);
/// The maximum number of requests of one login, or one renewal of a token: a server that names twenty authorization servers
/// names none.
pub const OAUTH_REQUESTS: u32 = 32;
/// The maximum number of redirects that the registration of a client follows.
pub const OAUTH_HOPS: u32 = 4;
/// The maximum bytes of an answer. The largest known metadata has about ten thousand.
pub const OAUTH_BODY_BYTES: usize = 256 << 10;
/// The maximum bytes of a server's authentication challenge: the common limit of a header.
pub const OAUTH_CHALLENGE_BYTES: usize = 8 << 10;
/// The maximum bytes of a URL of a login.
pub const OAUTH_URL_BYTES: usize = 8 << 10;
/// The maximum bytes of a token, a client's id or its secret: servers refuse longer headers.
pub const OAUTH_TOKEN_BYTES: usize = 16 << 10;
/// The maximum number of scopes requested in one login.
pub const OAUTH_SCOPES: usize = 128;
/// The maximum bytes of one scope.
pub const OAUTH_SCOPE_BYTES: usize = 256;
/// The maximum bytes of a file that records one login.
pub const OAUTH_FILE_BYTES: u64 = 256 << 10;
/// The time in which another process that renews tokens is done: all its requests would have to take this long.
pub const OAUTH_LOCK_TIME: Duration = Duration::from_secs(120);
/// The time before its end at which a token is renewed, or half of its life if that is shorter: it must not expire in
/// transit.
pub const OAUTH_EARLY: Duration = Duration::from_secs(30);
/// The time in which a person logs in: some have to look for their telephone first.
pub const OAUTH_LOGIN_TIME: Duration = Duration::from_secs(600);
/// The maximum bytes of the head of the request with which a browser returns from a login.
pub const OAUTH_CALLBACK_BYTES: usize = 32 << 10;
/// The maximum number of connections, of browsers and others on this machine, that are open at once during a login.
pub const OAUTH_CALLBACK_CONNECTIONS: usize = 16;
/// The time in which such a connection has to send its request.
pub const OAUTH_CALLBACK_TIME: Duration = Duration::from_secs(10);
