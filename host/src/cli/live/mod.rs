//! The display of a run for a person: redrawn in place at a terminal, lines elsewhere.

mod activity_rows;
mod agent_feeds;
mod call_arguments;
#[cfg(test)]
pub mod events_for_tests;
mod live_display;
mod plain_reply;
mod run_activity;
mod run_display;
mod run_lines;
#[cfg(test)]
pub mod terminal_for_tests;
mod terminal_theme;
#[cfg(test)]
mod tests;

pub use activity_rows::{activity_rows, elapsed_in_words};
pub use agent_feeds::AgentFeeds;
pub use call_arguments::telling_argument;
pub use plain_reply::PlainReply;
pub use run_activity::RunActivity;
pub use run_display::{DisplayOptions, FinishedDisplay, RunDisplay, terminal_size};
pub use run_lines::{RunLines, SizeQuery, amount_in_words, rendered, time_in_words};
pub use terminal_theme::{TerminalColours, chosen_theme, theme_named};
