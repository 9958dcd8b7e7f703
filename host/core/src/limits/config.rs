//! Limits of the config, its error messages, and the task on the command line.

use std::time::Duration;

/// The maximum number of existing names listed in the error for an unknown name.
pub const NAMES_SHOWN: usize = 50;
/// The maximum number of config errors that are reported at once: further ones mostly have the same cause.
pub const CONFIG_MISTAKES: usize = 50;
/// The maximum bytes of one task given on the command line, in a file or on standard input.
pub const TASK_BYTES: usize = 1 << 20;
/// The maximum bytes of standard input that are sent to the model besides a task: like a task, they are held in memory and
/// sent whole.
pub const STDIN_BYTES: usize = 1 << 20;
/// The time to wait for the first byte of a pipe on standard input: parent processes often leave a pipe open that never
/// carries data.
pub const STDIN_WAIT: Duration = Duration::from_secs(3);
/// The maximum bytes of a config file.
pub const CONFIG_BYTES: u64 = 1 << 20;
/// The maximum number of links that lead to the user-wide config, as many as Linux follows: the folder of each is examined.
pub const CONFIG_LINKS: usize = 40;
/// The context window in tokens below which an agent that no config describes has the tools for files alone. The definitions
/// of all of its default tools take about 5,600 tokens, a third of this.
pub const DEFAULT_TOOLS_WINDOW: u64 = 16_384;
