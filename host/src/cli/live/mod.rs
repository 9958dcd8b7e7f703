//! What a person sees while a run works: a display that is redrawn in place at a terminal, lines where it is none.

mod activity_rows;
mod live_display;
mod plain_reply;
mod run_activity;
mod run_display;
#[cfg(test)]
mod tests;

pub use live_display::{amount_in_words, time_in_words};
pub use run_display::{DisplayOptions, PrintedReply, RunDisplay, theme_of};
