//! Limits of the interactive chat.

use std::time::Duration;

use super::TASK_BYTES;

/// The maximum bytes of a message while it is typed or pasted: as many as a task of `run` may have.
pub const CHAT_INPUT_BYTES: usize = TASK_BYTES;
/// The maximum number of rows in which the message is shown while it is typed; it scrolls beyond.
pub const CHAT_INPUT_ROWS: usize = 10;
/// The maximum number of messages that wait while the agent works. More is a plan that belongs into one message.
pub const CHAT_QUEUE: usize = 16;
/// The number of waiting messages that are shown; the rest is counted.
pub const CHAT_QUEUE_SHOWN: usize = 3;
/// The maximum number of lines of the region that is redrawn: the end of the reply, the activity, what waits, the message that
/// is typed, and the status.
pub const CHAT_LINES: usize = 40;
/// The maximum number of messages in the history of what was typed. Nobody searches for older ones.
pub const CHAT_HISTORY_ENTRIES: usize = 1_000;
/// The maximum bytes of a message in the history; a longer one is a paste, and is left out.
pub const CHAT_HISTORY_ENTRY_BYTES: usize = 8 << 10;
/// The maximum bytes of the file with the history; a larger one is not read.
pub const CHAT_HISTORY_BYTES: u64 = 16 << 20;
/// The maximum number of proposals for completion that are shown; the rest is counted.
pub const CHAT_COMPLETIONS_SHOWN: usize = 12;
/// The maximum number of entries of a folder that are looked at for completion.
pub const CHAT_COMPLETED_ENTRIES: usize = 10_000;
/// The maximum number of command files of a project: as many as a person can tell apart in a list.
pub const CHAT_COMMAND_FILES: usize = 200;
/// The maximum bytes of a command file, whose text becomes a message.
pub const CHAT_COMMAND_FILE_BYTES: u64 = 64 << 10;
/// The maximum bytes of the output of a command that a person runs; the rest is left out.
pub const CHAT_SHELL_OUTPUT_BYTES: usize = 256 << 10;
/// The number of sessions that `/sessions` lists.
pub const CHAT_SESSIONS_SHOWN: usize = 20;
/// The number of earlier messages that are shown when a session continues.
pub const CHAT_RECALLED_MESSAGES: usize = 6;
/// The maximum number of keys and pastes that wait to be processed; the reader of the terminal then waits.
pub const CHAT_KEYS: usize = 256;
/// The time between two looks at the terminal for keys, after which the reader sees that the chat has ended.
pub const CHAT_KEY_WAIT: Duration = Duration::from_millis(100);
/// The time between two looks at a program that still runs: a command of the shell that has closed its output, or an editor.
pub const CHAT_SHELL_WAIT: Duration = Duration::from_millis(20);
/// The time from a question's appearance until keys answer it: nobody can answer a question that they have not seen, and who was
/// typing a message needs as long to stop.
pub const CHAT_QUESTION_PAUSE: Duration = Duration::from_millis(400);
/// The shortest time between two drawings of a chat: many pieces of a reply share a drawing.
pub const CHAT_DRAWING: Duration = Duration::from_millis(12);
/// The shortest time between a drawing of a chat and one that shows a key: a person sees it at once, and the keys of a program that
/// types share a drawing.
pub const CHAT_KEY_DRAWING: Duration = Duration::from_millis(3);
/// The time after which a person is told that an agent is still being prepared: plugins that are compiled for the first time take
/// seconds.
pub const CHAT_PREPARING: Duration = Duration::from_secs(2);
/// The maximum number of tool calls that are kept to be shown in full. More than one answer has, and at most 6 MiB.
pub const CHAT_CALLS_KEPT: usize = 100;
/// The maximum bytes of the arguments, and of the result, of a call that is shown in full: some hundred lines.
pub const CHAT_CALL_TEXT_BYTES: usize = 32 << 10;
/// The maximum number of earlier messages that `/rewind` lists; older ones are found with `session show --steps`.
pub const CHAT_REWIND_SHOWN: usize = 50;
/// The time from which on the end of an answer is notified. Who waits a shorter time still looks at the terminal.
pub const CHAT_NOTIFIED_AFTER: Duration = Duration::from_secs(10);
/// The maximum number of characters of a notification: desktops show one or two lines.
pub const CHAT_NOTIFICATION_CHARS: usize = 120;
/// The maximum number of rows in which `/focus` shows what one agent says and calls: half of a usual window.
pub const CHAT_FOCUS_ROWS: usize = 12;
/// The maximum number of replies and calls that are kept of each agent at work for `/focus`; the oldest are dropped. More than
/// fit into its rows.
pub const CHAT_FEED_ENTRIES: usize = 16;
/// The bytes of a reply of an agent at work that are kept for `/focus`: its end, and at most twice as many. More than fit into
/// its rows.
pub const CHAT_FEED_TEXT_BYTES: usize = 4 << 10;
/// The maximum number of open tasks of the board that are shown while an agent works; the rest is counted.
pub const CHAT_BOARD_TASKS: usize = 5;
/// The maximum number of values of blackboards that are shown while an agent works, the newest of each blackboard first; the rest is
/// counted.
pub const CHAT_BOARD_VALUES: usize = 4;
/// The least number of rows of a window in which open tasks and blackboards are shown: a smaller one has room for the reply and the
/// message alone.
pub const CHAT_BOARD_WINDOW_ROWS: u16 = 16;
/// The maximum number of rows that `/tasks`, `/board` and `/agents` show each; the rest is counted.
pub const CHAT_LIST_ROWS: usize = 100;
/// The time between two looks at a session in which another program works: a person sees its messages as they come, and a long
/// session is not read all the time.
pub const CHAT_WATCH_PAUSE: Duration = Duration::from_millis(500);
