//! Markdown that arrives in pieces, as lines for a terminal.
//!
//! [`StreamedMarkdown::push`] returns lines that are final: they are printed once and never change. The block that is still
//! open is shown by [`StreamedMarkdown::tail`], which is drawn anew. Code is final line by line, everything else block by
//! block; a list item is a block.
//!
//! The dialect is CommonMark with tables, task lists, strikethrough and footnotes of GitHub. A table that is too wide for the
//! terminal is wrapped in its columns, or shown as records. HTML is shown as text. Links of the form `[text][label]` are shown
//! as they are written, and so are the definitions of labels: the link may be on the screen before its definition arrives.
//!
//! # Layers
//!
//! A file uses the rows above it.
//!
//! | file | contains |
//! |---|---|
//! | `source_lines` | lines out of pieces of text |
//! | `block_event`, `block_start`, `table_syntax` | the structure of a text; the starts of blocks; rows of tables |
//! | `block_parser` | the structure, line by line |
//! | `wrapping`, `inline`, `code_highlighter`, `table_layout` | styled text, wrapped to columns |
//! | `block_renderer` | the lines of each block |

mod block_event;
mod block_parser;
mod block_renderer;
mod block_start;
mod code_highlighter;
mod inline;
mod source_lines;
mod table_layout;
mod table_syntax;
pub(crate) mod wrapping;

#[cfg(test)]
mod structure_tests;
#[cfg(test)]
mod tests;

use block_parser::BlockParser;
use block_renderer::BlockRenderer;
use inline::InlineRenderer;
use source_lines::{SourceLines, SourcePiece};

use crate::{styled_line::StyledLine, theme::Theme};

/// A Markdown text that arrives in pieces and is rendered as it comes.
///
/// The final lines do not depend on how the text is split into pieces. What is kept of the text is bounded
/// ([`limits`](crate::limits)), and so is the cost of a piece, whatever came before it.
///
/// ```
/// use shelly_terminal::{markdown::StreamedMarkdown, theme::Theme};
///
/// let mut answer = StreamedMarkdown::new(20, Theme::plain());
/// assert_eq!(answer.push("# Sum\nTwo and two ")[0].to_string(), "# Sum");
/// assert_eq!(answer.tail()[1].to_string(), "Two and two");
/// let lines = answer.push("make **four**.\n\n");
/// let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
/// assert_eq!(lines, ["", "Two and two make", "**four**."]);
/// assert!(answer.finish().is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct StreamedMarkdown {
    source: SourceLines,
    parser: BlockParser,
    renderer: BlockRenderer,
}

impl StreamedMarkdown {
    /// Creates an empty text that is rendered for so many columns of a terminal, at least one.
    pub fn new(width: usize, theme: Theme) -> Self {
        let inline = InlineRenderer { theme, has_hyperlinks: false };
        Self {
            source: SourceLines::default(),
            parser: BlockParser::new(),
            renderer: BlockRenderer::new(inline, width.max(1)),
        }
    }

    /// Makes links hyperlinks of the terminal (OSC 8) where their target is a [`LinkTarget`](crate::styled_line::LinkTarget).
    /// The target is shown as text all the same.
    pub fn with_hyperlinks(mut self) -> Self {
        self.renderer.inline.has_hyperlinks = true;
        self
    }

    /// Sets the columns for the lines that follow, at least one: a terminal was resized. The columns of a table whose first
    /// rows are final stay.
    pub fn set_width(&mut self, width: usize) {
        self.renderer.width = width.max(1);
    }

    /// Adds the next piece of the text. Returns the lines that are final now and were not before.
    pub fn push(&mut self, delta: &str) -> Vec<StyledLine> {
        let Self { source, parser, renderer } = self;
        source.push(delta, |piece| add(&piece, parser, renderer));
        renderer.take_lines()
    }

    /// Returns the lines of the block that is open: those that [`Self::finish`] would return now. The work is bounded by the
    /// size of an open block, so it is done once for each time that the screen is drawn, rather than for each piece.
    pub fn tail(&self) -> Vec<StyledLine> {
        self.clone().finish()
    }

    /// Ends the text. Returns the lines that were not final yet.
    pub fn finish(mut self) -> Vec<StyledLine> {
        if let Some(piece) = self.source.unfinished() {
            add(&piece, &mut self.parser, &mut self.renderer);
        }
        self.parser.finish().into_iter().for_each(|event| self.renderer.add(event));
        self.renderer.take_lines()
    }

    /// Returns the bytes that are kept of the text.
    #[cfg(test)]
    fn kept_bytes(&self) -> usize {
        self.source.kept_bytes() + self.parser.kept_bytes() + self.renderer.kept_bytes()
    }
}

fn add(piece: &SourcePiece, parser: &mut BlockParser, renderer: &mut BlockRenderer) {
    parser.feed(piece).into_iter().for_each(|event| renderer.add(event));
}
