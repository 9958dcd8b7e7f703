//! Limits of programs that the host runs for agents.

use std::time::Duration;

use super::PLUGIN_TIME_CEILING;

/// The number of concurrent programs of agents, their plugins and git together; others wait. Each has two or three pipes.
pub const PROCESSES: usize = 16;
/// The time that a program waits for its turn.
pub const PROCESS_PERMIT_WAIT: Duration = Duration::from_secs(120);
/// The default wall time of a program: most builds and tests end within it.
pub const PROCESS_TIME: Duration = Duration::from_secs(120);
/// The longest wall time of a program.
pub const PROCESS_TIME_CEILING: Duration = PLUGIN_TIME_CEILING;
/// The bytes kept of a program's standard output, and of its standard error, as in the contract.
pub const PROCESS_OUTPUT_BYTES: usize = 1 << 20;
/// The bytes read from a pipe at once: the capacity of a pipe.
pub const PROCESS_PART_BYTES: usize = 64 << 10;
/// The first interval between two checks whether a program has ended; it doubles up to [`PROCESS_PAUSE`].
pub const PROCESS_FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The time in which the remaining output is read from the pipes of an ended program.
pub const PROCESS_GRACE: Duration = Duration::from_millis(500);
/// The maximum number of scans for remaining descendants of a program: one that spawns faster than its processes are killed
/// cannot be caught.
pub const PROCESS_LOOKS: u32 = 16;
/// The maximum number of programs that a config can name.
pub const PROGRAMS: usize = 256;
/// The maximum number of argument patterns of one program, and of its environment variables.
pub const PROGRAM_LISTS: usize = 64;
/// The maximum number of words of one such pattern.
pub const PROGRAM_WORDS: usize = 64;
/// The maximum bytes of a program's name in a config: it appears in schemas and questions.
pub const PROGRAM_NAME_BYTES: usize = 64;
/// The maximum characters of a program's standard input shown in a question.
pub const PROGRAM_STDIN_SHOWN_CHARS: usize = 1_000;
/// The maximum characters of a command with its arguments in a question: all of it is shown, so a longer one is refused.
pub const COMMAND_SHOWN_CHARS: usize = 2_400;
/// The wall time of one git command. None of them uses the network.
pub const GIT_TIME: Duration = Duration::from_secs(60);
/// The maximum number of commits that one `git_log` shows. More than a model can read.
pub const GIT_COMMITS: u32 = 1_000;
/// The maximum number of files and folders in one git command.
pub const GIT_PATHS: usize = 256;
/// The maximum bytes of the name of a branch or a revision, including a path in it.
pub const GIT_NAME_BYTES: usize = 512;
/// The maximum bytes of a file that links a folder to its repository or back: a word and a path.
pub const GIT_LINK_BYTES: u64 = 8 << 10;
/// The maximum characters of the list of files in a question about a commit.
pub const GIT_LIST_SHOWN_CHARS: usize = 1_200;
/// The maximum number of runs for which a person's permission to read the repository is remembered; beyond it all are asked
/// again.
pub const GIT_RUNS: usize = 1_024;
/// The interval between two checks whether a program has ended, once its output is complete.
pub const PROCESS_PAUSE: Duration = Duration::from_millis(10);
