//! Limits of what plugins and tools declare, return and log.

use std::time::Duration;

// ---- plugin output

/// The maximum bytes of one log entry; the rest is cut.
pub const LOG_ENTRY_BYTES: usize = 4 << 10;
/// The maximum bytes that a guest may write to its standard output or error at once: they are held in memory until they are
/// split into lines.
pub const STDOUT_WRITE_BYTES: usize = 64 << 10;
/// The number of log entries shown of a plugin that failed when it was tried: the last ones, which tell why.
pub const PROBE_LOG_ENTRIES: usize = 3;
/// The default number of log entries of one call; later ones are dropped and counted.
pub const LOG_ENTRIES: u32 = 1_000;
/// The shortest interval between two progress reports of one call; of those in between, the newest is kept.
pub const PROGRESS_PAUSE: Duration = Duration::from_millis(100);
/// The maximum number of tools of one plugin.
pub const TOOLS_PER_PLUGIN: usize = 128;
/// The maximum bytes of a tool's description.
pub const TOOL_DESCRIPTION_BYTES: usize = 8 << 10;
/// The maximum bytes of a tool's schema.
pub const TOOL_SCHEMA_BYTES: usize = 64 << 10;
/// The maximum nesting depth of a tool's schema. Vendors accept much less.
pub const TOOL_SCHEMA_DEPTH: usize = 32;
/// The last second that a four-digit date can name, after 1970.
pub const LAST_DATE: Duration = Duration::from_secs(253_402_300_799);
/// The maximum bytes that `specs` returns.
pub const SPECS_BYTES: usize = 512 << 10;
/// The maximum bytes of a tool's result.
pub const RESULT_BYTES: usize = 16 << 20;
/// The maximum bytes of one image, document or sound.
pub const MEDIA_BYTES: usize = 8 << 20;
/// The maximum bytes of the media type, of the file name and of the address of a medium.
pub const MEDIA_NAME_BYTES: usize = 2 << 10;
/// The maximum bytes of the arguments of a tool call.
pub const ARGUMENT_BYTES: usize = 1 << 20;
/// The maximum bytes of the state that a pure step may keep. A config can only lower it: the state is recorded in every
/// turn.
pub const STATE_BYTES: usize = 64 << 10;
/// The maximum bytes of a note that an effect adds to the chat.
pub const NOTE_BYTES: usize = 16 << 10;
/// The maximum bytes of all notes that an effect adds in one step: about 30,000 tokens, which the model reads again in every
/// turn.
pub const NOTES_PER_STEP_BYTES: usize = 8 * NOTE_BYTES;
/// The maximum number of edits in one answer of an effect.
pub const EDITS_PER_STEP: usize = 1_024;
/// The maximum bytes of an error text.
pub const ERROR_BYTES: usize = 4 << 10;
/// The maximum bytes of one delta that a provider passes to its sink.
pub const DELTA_BYTES: usize = 64 << 10;
/// The maximum number of pairs in a `meta`.
pub const META_PAIRS: usize = 32;
/// The maximum bytes of a `meta`.
pub const META_BYTES: usize = 4 << 10;
/// The maximum bytes of the messages that one `chat.read` returns.
pub const CHAT_READ_BYTES: usize = 1 << 20;
/// The maximum number of entries that one `chat.entries` returns.
pub const CHAT_ENTRIES: usize = 1_024;
/// The maximum bytes that one `random.bytes` returns.
pub const RANDOM_BYTES: u32 = 64 << 10;

// ---- media that plugins read from a conversation

/// The maximum bytes of one read of an attachment: equal to those of the messages in one read.
pub const ATTACHMENT_READ_BYTES: usize = 1 << 20;
