//! Limits of what is shown at a terminal.

/// The maximum bytes of a line of Markdown that is kept until its end has come; a longer line is processed in pieces of this
/// size. A paragraph of a model's answer is one such line.
pub const MARKDOWN_LINE_BYTES: usize = 8 << 10;
/// The maximum bytes of a paragraph that is kept until its end has come; a longer one is shown in pieces, each of which begins
/// a line. It is parsed again each time that the open block is shown.
pub const MARKDOWN_PARAGRAPH_BYTES: usize = 8 << 10;
/// The maximum bytes of the rows of a table that are kept to fit its columns; later rows get the columns of these.
pub const MARKDOWN_TABLE_BYTES: usize = 32 << 10;
/// The maximum number of columns of a table; lines that would begin a wider one are shown as text. No terminal shows more, and
/// a short row has a cell in each.
pub const MARKDOWN_TABLE_COLUMNS: usize = 64;
/// The maximum number of block quotes, list items and footnotes inside each other; deeper ones are shown as text.
pub const MARKDOWN_DEPTH: usize = 24;
/// The maximum bytes of the label of a footnote's definition; with a longer one it is shown as text.
pub const FOOTNOTE_LABEL_BYTES: usize = 32;
/// The maximum bytes of a line of code that is highlighted; a longer one is shown in one colour. Longer ones are data more
/// often than code, and the time for a line may grow with the square of its length: to 50 ms for one of this length.
pub const HIGHLIGHTED_LINE_BYTES: usize = 200;
/// The maximum number of letters, or of blanks, after one another in a line of code that is highlighted: no name is longer, and
/// for such lines patterns take longest.
pub const HIGHLIGHTED_WORD_CHARS: usize = 64;
/// The maximum bytes of code that are highlighted in a text; what follows is shown in one colour. It is as much as a model
/// writes in one reply.
pub const HIGHLIGHTED_TEXT_BYTES: usize = 256 << 10;
/// The maximum number of scopes inside each other at the end of a highlighted line; from there on a block is shown in one
/// colour, since the cost of a line grows with them.
pub const HIGHLIGHTED_SCOPES: usize = 64;
/// The maximum number of combining characters after one another; further ones are spelled out. The bound of Unicode's
/// stream-safe text format (UAX #15), which no language reaches.
pub const COMBINING_CHARS: usize = 30;
/// The maximum bytes of the target of a hyperlink, as terminals have it (VTE); a longer one is shown and not linked.
pub const HYPERLINK_BYTES: usize = 2_083;
