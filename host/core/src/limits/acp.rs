//! Limits of serving editors over the Agent Client Protocol.

use std::time::Duration;

use super::{CANCEL_GRACE, CHAT_QUEUE, MCP_MESSAGE_VALUES, SPECS_BYTES};

/// The maximum bytes of one line of an editor: the largest request that vendors take, in which images are base64, too.
pub const ACP_LINE_BYTES: usize = 32 << 20;
/// The bytes of a line that is too long, or of blank lines before a message, that are skipped before the editor is given up:
/// the content of the largest file that somebody may have open.
pub const ACP_SKIPPED_BYTES: usize = 64 * ACP_LINE_BYTES;
/// The bytes at the beginning of a line that is too long in which its id is searched for.
pub const ACP_ID_BYTES: usize = 256;
/// The maximum number of values in one message, lists and objects counted with their content, as of an MCP server.
pub const ACP_MESSAGE_VALUES: usize = MCP_MESSAGE_VALUES;
/// The maximum number of consecutive lines that are no messages, after which the editor is given up.
pub const ACP_GARBAGE_LINES: u32 = 1_000;
/// The number of lines that an editor has not read yet; whoever has a further one waits.
pub const ACP_UNREAD_LINES: usize = 256;
/// The time in which an editor must take a line from its pipe.
pub const ACP_WRITE_TIME: Duration = Duration::from_secs(30);
/// The maximum number of requests, without prompts, that are worked on at once; further ones are refused.
pub const ACP_REQUESTS: usize = 32;
/// The maximum number of open conversations: each has an app, its plugins and MCP servers.
pub const ACP_SESSIONS: usize = 32;
/// The maximum number of prompts of one conversation that wait while another is answered, as many as in a chat.
pub const ACP_PROMPTS_WAITING: usize = CHAT_QUEUE;
/// The maximum number of blocks of one prompt: each file that is mentioned is one, and so is the text between two of
/// them.
pub const ACP_PROMPT_BLOCKS: usize = 512;
/// The maximum number of images in one prompt: about 75,000 tokens.
pub const ACP_PROMPT_IMAGES: usize = 50;
/// The maximum bytes of the text and the files of one prompt together: as base64 they fill the largest request that vendors
/// take.
pub const ACP_PROMPT_BYTES: usize = 24 << 20;
/// The maximum bytes of the prompts of all conversations that are not answered yet: eight of the longest lines.
pub const ACP_PROMPTS_BYTES: usize = 8 * ACP_LINE_BYTES;
/// The maximum number of MCP servers that an editor brings for one conversation.
pub const ACP_CLIENT_SERVERS: usize = 64;
/// The maximum bytes of all arguments, variables and headers of one such server.
pub const ACP_CLIENT_SERVER_BYTES: usize = SPECS_BYTES;
/// The number of sessions on one page of a list.
pub const ACP_LISTED_SESSIONS: usize = 50;
/// The maximum number of commands that an editor is told of; nobody can tell more apart in a list.
pub const ACP_COMMANDS: usize = 100;
/// The maximum bytes of the arguments or of the result of a tool call that an editor is sent: it shows them in full.
pub const ACP_CALL_BYTES: usize = 256 << 10;
/// The maximum number of files of one tool call whose texts are compared in the editor.
pub const ACP_CALL_DIFFS: usize = 100;
/// The number of steps of an agent that works for another one that are shown: the newest.
pub const ACP_SUB_RUN_STEPS: usize = 20;
/// The shortest time between two reports of progress of one tool call.
pub const ACP_PROGRESS_PAUSE: Duration = Duration::from_millis(200);
/// The maximum characters of the title of a tool call, and of a step of an agent that works for another one.
pub const ACP_TITLE_CHARS: usize = 120;
/// The time in which the events before a question must have been sent: the editor shows the call before it is asked about
/// it.
pub const ACP_QUESTION_ORDER_TIME: Duration = Duration::from_secs(2);
/// The time that prompts have to end after their editor has closed its pipe: a script that pipes in a few lines reads the
/// answers.
pub const ACP_CLOSE_TIME: Duration = CANCEL_GRACE;
