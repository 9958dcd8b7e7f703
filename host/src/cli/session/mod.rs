//! The subcommand `session`: resuming, reading and removing sessions.

mod copy;
mod export;
mod lifecycle;
mod list;
mod listed_sessions;
mod loaded_transcript;
mod markdown;
mod session_command;
mod session_project_args;
mod show;
mod steps;
mod table;
mod times;
mod transcript_words;
mod undo;

pub use export::exported_markdown;
pub use lifecycle::age;
pub use list::session_table;
pub use session_command::SessionCommand;
pub use session_project_args::SessionProjectArgs;
pub use table::table;
pub use times::when;
