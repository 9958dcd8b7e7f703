//! The terminal of `shelly-host`: an answer that streams in as Markdown, and live progress below it.
//!
//! The crate knows nothing of agents and models. It reads no environment, owns no output and starts no task: the caller
//! passes values in and writes to what it has opened.
//!
//! # Modules
//!
//! In reading order, the lowest layer first:
//!
//! | module | contents |
//! |---|---|
//! | [`limits`] | every bound, with its unit and its reason |
//! | [`safe_text`] | untrusted text without the characters that a terminal acts on or that nobody sees |
//! | [`styled_line`] | a line of safe text with styles and hyperlinks: cut to columns, written for a terminal |
//! | [`theme`] | the colours, chosen from the environment and from the terminal's answer about its background |
//! | [`markdown`] | Markdown that arrives in pieces, rendered to lines that are final and to the block that is still open |
//! | [`line_wrapping`] | a line that is no Markdown, broken between words |
//! | [`live_region`] | lines at the bottom of the screen that are redrawn in place, below text that scrolls away |
//! | [`text_editor`] | a text of several lines that a person edits, and its rows on the screen |
//!
//! # What always holds
//!
//! * A [`StyledLine`](styled_line::StyledLine) has no character that a terminal acts on. Everything that this crate shows is
//!   such a line, so control sequences on the screen are those that the crate itself writes.
//! * Final lines do not depend on how a text was split into pieces.
//! * The memory that is kept does not grow with the length of a text, and neither does the cost of its next piece.
//!
//! # An answer with progress below it
//!
//! ```
//! use shelly_terminal::{
//!     live_region::{LiveRegion, TerminalSize},
//!     markdown::StreamedMarkdown,
//!     styled_line::StyledLine,
//!     theme::{StyleRole, TerminalEnvironment, Theme},
//! };
//!
//! # fn main() -> std::io::Result<()> {
//! // A program reads these from its environment.
//! let environment = TerminalEnvironment {
//!     term: Some("xterm-256color"),
//!     input_is_terminal: true,
//!     output_is_terminal: true,
//!     ..TerminalEnvironment::default()
//! };
//! let theme = Theme::new(environment.colour_support(), None);
//! let screen = Vec::new();
//! let mut region = LiveRegion::new(screen, || TerminalSize { columns: 80, rows: 24 }, 6);
//! let mut answer = StreamedMarkdown::new(80, theme.clone());
//! for delta in ["# Two", " and two\n\nIt is **fo", "ur**."] {
//!     let done = answer.push(delta);
//!     let mut live = answer.tail();
//!     live.push(StyledLine::styled("writing…", theme.style(StyleRole::Muted)));
//!     region.update(&done, live)?;
//! }
//! region.update(&answer.finish(), Vec::new())?;
//! region.clear()?;
//! # Ok(()) }
//! ```

mod ansi;
mod display_width;
pub mod limits;
pub mod line_wrapping;
pub mod live_region;
pub mod markdown;
pub mod safe_text;
pub mod styled_line;
pub mod text_editor;
pub mod theme;
