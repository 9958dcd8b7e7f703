//! Limits of one run: turns, tool calls and their results, conversations, middleware, events.

use std::time::Duration;

/// The default maximum of turns in one run.
pub const MAX_ITERATIONS: u32 = 50;
/// The largest maximum of turns that a config can set: a loop without end is a bill without end.
pub const MAX_ITERATIONS_CEILING: u32 = 10_000;
/// The number of tool calls of one reply that run concurrently; the others wait. More would only queue at the plugin pool.
pub const PARALLEL_TOOL_CALLS: usize = 16;
/// The number of tool calls in one reply that are executed; calls beyond it are answered with an error.
pub const CALLS_PER_REPLY: usize = 128;
/// The maximum bytes of one conversation, including media. A message that exceeds it is refused, and the next turn does not
/// begin.
pub const CHAT_BYTES: usize = 256 << 20;
/// The maximum number of parts of one tool result.
pub const RESULT_PIECES: usize = 256;
/// The maximum characters of one tool result that a model is shown: about 8,000 tokens.
pub const TOOL_RESULT_CHARS: usize = 32_000;
/// The fraction (one in this number) of a model's known context window that one tool result may take: a quarter leaves room
/// for the prompt, the tools, the history and a reply.
pub const RESULT_WINDOW_PART: u64 = 4;
/// The fraction (one in this number) of the context window that the results of one reply may take together, in equal shares:
/// the other half stays free.
pub const RESULTS_WINDOW_PART: u64 = 2;
/// The bytes of a tool result that are shown however small the context window is: a shorter excerpt is useless.
pub const LEAST_RESULT_BYTES: usize = 1_000;
/// The maximum characters of a truncated result that are kept for the model to page through. Tool middleware processes all
/// of them, and a model never pages through more than a quarter of a million tokens.
pub const KEPT_RESULT_CHARS: usize = 1_000_000;
/// The maximum bytes of kept results in one conversation; the oldest are removed first.
pub const KEPT_RESULTS_BYTES: usize = 32 << 20;
/// The maximum number of consecutive questions of one effect to a model.
pub const ASKS_IN_A_ROW: u32 = 8;
/// The maximum number of further attempts that one middleware may request for a run or a request to a model. With delays
/// that double from one second on, eight outlast a vendor's short outage; a budget ends a run that repeats itself earlier.
pub const MIDDLEWARE_RETRIES: u32 = 8;
/// The longest delay that a middleware may request before another attempt.
pub const MIDDLEWARE_DELAY: Duration = Duration::from_secs(60);
/// The maximum total of such delays before one reply, and before one answer of a run: equal to the time that a request waits
/// for a busy server. Further attempts follow without a delay.
pub const MIDDLEWARE_WAITING: Duration = Duration::from_secs(120);
/// The maximum number of requests to models for one reply, those of all middleware together: nested attempts multiply.
pub const REQUESTS_PER_REPLY: u32 = 32;
/// The number of events queued for a slow reader before the run waits for it.
pub const EVENT_QUEUE: usize = 1_024;
/// The maximum number of events queued for a reader for which the run waits. Each emitter waits after its event is queued,
/// so this many are reached only by as many emitters at once; the reader misses what they emit beyond it.
pub const EVENT_BACKLOG: usize = 2 * EVENT_QUEUE;
/// The maximum bytes of a task in an event.
pub const TASK_SHOWN_BYTES: usize = 500;
/// The maximum characters of a tool call's failure reason in an event: enough for an error with its path.
pub const FAILURE_SHOWN_CHARS: usize = 500;
/// The maximum characters of each of the two texts in the event of an effect's edit: enough to see what a summary says, or
/// which result was shortened. The messages themselves are in the session.
pub const EDIT_SHOWN_CHARS: usize = 2_000;
/// The maximum characters of a member's reply in an event: a paragraph. The session holds all of it.
pub const REPLY_SHOWN_CHARS: usize = 1_000;
/// The maximum number of retries of a reply that broke off in the middle, if the model's own `retries` allow as many. Each
/// of them is charged.
pub const BROKEN_REPLIES: usize = 2;
/// The maximum number of tools that one run omits because the model's vendor refuses their schemas. Each costs a request; a
/// server that refuses more refuses everything.
pub const REFUSED_TOOLS: usize = 8;
/// The time that a cancelled run has to report its end, if its reader does not continue to read, and that a run waits for
/// the end of the children that it stops.
pub const CANCEL_GRACE: Duration = Duration::from_secs(2);
