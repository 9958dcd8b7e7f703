//! Limits of requests to models, of their replies and of batches.

use std::time::Duration;

use super::{CALLS_PER_REPLY, TOOL_SCHEMA_BYTES, TOOL_SCHEMA_DEPTH};

// ---- models over HTTP

/// The maximum bytes of one reply of a model: text, thinking and arguments together.
pub const REPLY_BYTES: usize = 16 << 20;
/// The bytes of a reply that may resemble printed tool calls without being any; the rest counts as text, so that a reply
/// that resembles a call everywhere is not parsed over and over.
pub const PRINTED_DOUBT_BYTES: usize = 1 << 20;
/// The maximum nesting depth of printed arguments that are not JSON; JSON has the parser's bound.
pub const PRINTED_DEPTH: usize = 64;
/// The bytes of the line before a printed call in which a word that marks an example is searched for.
pub const PRINTED_LINE_BYTES: usize = 512;
/// The maximum bytes of the header before a gpt-oss message, which names its recipient and format.
pub const PRINTED_HEADER_BYTES: usize = 512;
/// The maximum number of tool calls of one reply that are assembled: more than an agent executes, so that it can report the
/// excess.
pub const CALLS_IN_REPLY: usize = 8 * CALLS_PER_REPLY;
/// The maximum bytes of a word from a model server that is kept: the name of a model, an unknown stop reason.
pub const REPLY_WORD_BYTES: usize = 256;
/// The maximum bytes of one event in a stream of a model server.
pub const STREAM_EVENT_BYTES: usize = 8 << 20;
/// The maximum bytes of one event stream of a server. Each delta comes in an event of about 300 bytes: the longest replies,
/// of about 130,000 tokens, take 40 MB.
pub const STREAM_BYTES: usize = 256 << 20;
/// The maximum consecutive bytes of a stream without progress: comments, empty and unknown events, deltas without content.
/// At the end some protocols repeat the whole reply in several events. Reading this many takes some seconds at most.
pub const STREAM_IDLE_BYTES: usize = 2 * REPLY_BYTES;
/// The time for which the stream of a reply may continue without progress. Servers send keep-alive events while a model
/// thinks silently. A longer silence that a config allows also applies here.
pub const STREAM_IDLE_EVENTS_TIME: Duration = Duration::from_secs(300);
/// The bytes of an error body that are read to explain the error.
pub const ERROR_BODY_BYTES: usize = 4 << 10;
/// The time of one connection attempt, from the name lookup to the end of the TLS handshake, with or without a proxy. A
/// reachable server answers within one second; a packet that is lost twice takes three more.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The time that an agent waits for its model before a person is notified; then after twice that time, and so on. A
/// reachable server begins within seconds, one that loads a model does not.
pub const MODEL_QUIET_TOLD: Duration = Duration::from_secs(10);
/// The default maximum silence in the middle of a reply.
pub const STREAM_IDLE_TIME: Duration = Duration::from_secs(120);
/// The default number of retries for transient failures.
pub const HTTP_RETRIES: usize = 3;
/// The longest completion time, and the longest silence, that a config can set.
pub const COMPLETION_TIME_CEILING: Duration = Duration::from_secs(24 * 3_600);
/// The token limit of the reply to a request that only checks whether a model answers: room for a short thought.
pub const PROBE_TOKENS: u32 = 256;
/// The delay before the second attempt where the server names none; it doubles for each further one.
pub const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The longest `Retry-After` that is obeyed; a longer one is reported.
pub const RETRY_AFTER_CEILING: Duration = Duration::from_secs(60);
/// The time to find out whether a local model server is running.
pub const DISCOVERY_TIME: Duration = Duration::from_millis(500);

// ---- Anthropic

/// The token limit of a reply where neither request nor config sets one: the API requires a limit. Room for a whole file in
/// the arguments of a call, and within the maximum of every current model.
pub const ANTHROPIC_REPLY_TOKENS: u32 = 8_192;
/// The maximum number of content blocks of one reply. Citations split a text into many; each costs memory even if it is
/// empty.
pub const ANTHROPIC_REPLY_BLOCKS: usize = 4_096;

// ---- the Responses API

/// The maximum number of items of one reply: messages, reasoning, calls and others. Twice the number of calls.
pub const RESPONSES_ITEMS: usize = 2 * CALLS_IN_REPLY;
/// The smallest token limit of a reply that OpenAI accepts.
pub const RESPONSES_LEAST_TOKENS: u32 = 16;
/// The maximum bytes of a call id that OpenAI accepts.
pub const RESPONSES_CALL_ID_BYTES: usize = 64;

// ---- schemas adapted for a vendor

/// The maximum nesting depth of schemas; deeper content is left open. Twice that of a plugin's tool, since references are
/// expanded.
pub const SCHEMA_DEPTH: usize = 2 * TOOL_SCHEMA_DEPTH;
/// The maximum nesting depth of expanded references; a schema that needs more tells a model nothing.
pub const SCHEMA_REFS: usize = 16;
/// The bytes beyond which no further reference is expanded: a few references can name each other without end.
pub const SCHEMA_INLINED_BYTES: usize = 4 * TOOL_SCHEMA_BYTES;

// ---- batched requests

/// The default time that the first request of a batch waits for others.
pub const BATCH_WINDOW: Duration = Duration::from_millis(500);
/// The longest batch window that a config can set: it is added to every turn of an agent.
pub const BATCH_WINDOW_CEILING: Duration = Duration::from_secs(60);
/// The default delay before a vendor is first asked for the state of a batch.
pub const BATCH_POLL: Duration = Duration::from_secs(5);
/// The longest delay between two such polls: the end of a batch must be noticed in time.
pub const BATCH_POLL_CEILING: Duration = Duration::from_secs(60);
/// The maximum number of consecutive polls that may fail with a transient error; the submitted requests are already charged.
pub const BATCH_POLL_FAILURES: u32 = 3;
/// The default time from the submission of a batch until its requests are sent directly instead.
pub const BATCH_TIME: Duration = Duration::from_secs(3_600);
/// The longest batch time that a config can set: vendors give up after it.
pub const BATCH_TIME_CEILING: Duration = Duration::from_secs(24 * 3_600);
/// The default number of requests in one batch.
pub const BATCH_SIZE: usize = 100;
/// The largest batch size that a config can set: each request may hold a whole conversation, and all are in memory at once.
pub const BATCH_SIZE_CEILING: usize = 1_000;
/// The time in which an abandoned batch must be cancelled.
pub const BATCH_CANCEL_TIME: Duration = Duration::from_secs(10);

// ---- configured rate limits

/// The window of a rate limit: vendors count by the minute.
pub const RATE_LIMIT_WINDOW: Duration = Duration::from_secs(60);
/// The time resolution of a rate limit: starts within one tick are stored as one. This bounds the stored values and delays
/// the return of capacity by at most one tick.
pub const RATE_LIMIT_TICK: Duration = Duration::from_millis(100);
/// The largest value of a rate limit, and the largest count of one reply: beyond any vendor's limits, and far from overflow.
pub const RATE_LIMIT_CEILING: u64 = 1_000_000_000_000;
/// The estimated tokens of a reply before there was one. A tool call has about a hundred, an answer somewhat more.
pub const RATE_LIMIT_FIRST_REPLY: u64 = 500;
/// The time that a request waits for its rate limit before a person is notified.
pub const RATE_LIMIT_TOLD: Duration = Duration::from_secs(5);
/// The time that a request waits for its rate limit before it fails: enough for a thousand queued agents at twenty requests
/// per minute.
pub const RATE_LIMIT_WAIT: Duration = Duration::from_secs(3_600);
/// The number of parts of a limit that several hosts share: a host takes one beyond what a request needs, so few hosts leave
/// little unused.
pub const RATE_SHARE_PARTS: u64 = 10;
/// The time in which a host may use a part. What it did not use is held back from others until the minute after that.
pub const RATE_SHARE_TIME: Duration = Duration::from_secs(5);
/// The maximum time that a request waits for the server that holds the parts; then it begins without.
pub const RATE_SHARE_WAIT: Duration = Duration::from_secs(2);
/// The time for which a call to that server is repeated: nobody waits for it any longer.
pub const RATE_SHARE_RETRY: Duration = Duration::from_secs(1);
/// The time for which that server is not asked again after it did not answer.
pub const RATE_SHARE_AWAY: Duration = Duration::from_secs(10);
/// The maximum time between two attempts to take a part: other hosts give back what they do not use.
pub const RATE_SHARE_POLL: Duration = Duration::from_secs(1);
/// The time after which the parts of a provider that nobody uses are forgotten.
pub const RATE_SHARE_KEPT: Duration = Duration::from_secs(300);

// ---- replies and requests of models, continued

/// The bytes that each delta of a reply counts in addition to its text: about its memory overhead. A server may alternate
/// between single letters of text and of thinking.
pub const REPLY_PIECE_BYTES: usize = 64;
/// The maximum bytes of a call id in Chat Completions: OpenAI refuses longer ones, and other servers produce them.
pub const CHAT_CALL_ID_BYTES: usize = 40;

// ---- batches at vendors

/// The maximum bytes of all requests of a batch: below the limits of OpenAI (200 MB) and Anthropic (256 MB), since a batch
/// is in memory twice.
pub const BATCH_BYTES: usize = 100 << 20;
/// The maximum bytes of all requests of a batch for Gemini: 20 MB, including the frame.
pub const GEMINI_BATCH_BYTES: usize = 19_000_000;
/// The maximum bytes of all results of a batch: enough for the largest number of requests with about 64,000 tokens each.
/// More is not read.
pub const BATCH_RESULTS_BYTES: usize = 256 << 20;
/// The time in which a vendor must report the state of a batch: it is asked again anyway.
pub const BATCH_POLL_TIME: Duration = Duration::from_secs(120);
/// The time in which a file of a batch must be deleted: results wait for it, and the vendor deletes remaining files
/// eventually.
pub const BATCH_DELETE_TIME: Duration = Duration::from_secs(5);
