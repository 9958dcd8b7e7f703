//! The block structure of Markdown, line by line.
//!
//! This is the algorithm of CommonMark's reference parser: a line continues the containers that are open, starts new ones,
//! and its rest is text. A block is passed on as soon as it ends; of the text that went before, only the open block is
//! kept. What a line does depends on the lines before it alone. Definitions of link references stay text, since the
//! references may have been shown already.

use super::{
    block_event::{BlockEvent, ContainerKind, ItemMarker},
    block_start::{
        BlockStart, CODE_INDENT, Fence, HtmlEnd, LineContext, ListPunctuation, block_start, indentation, is_blank,
        is_fence_end,
    },
    source_lines::SourcePiece,
    table_syntax::{delimiter_row, split_cells, split_row},
};
use crate::limits::{MARKDOWN_DEPTH, MARKDOWN_PARAGRAPH_BYTES, MARKDOWN_TABLE_COLUMNS};

/// A block that contains blocks and is open.
#[derive(Debug, Clone)]
struct OpenContainer {
    /// The columns of indentation of its lines; `None` for a quote, whose lines begin with `>`.
    indent: Option<usize>,
    is_empty: bool,
}

/// The block of text that is open.
#[derive(Debug, Clone, Default)]
enum OpenLeaf {
    #[default]
    None,
    Paragraph {
        text: String,
        continues: bool,
    },
    Fence(Fence),
    /// Blank lines belong to it if code follows them.
    IndentedCode {
        ends_blank: bool,
    },
    Html(HtmlEnd),
    Table {
        columns: usize,
    },
}

/// The list whose items are counted.
#[derive(Debug, Clone, Copy)]
struct ItemCount {
    punctuation: ListPunctuation,
    next: u64,
}

/// The open blocks of a text.
#[derive(Debug, Clone)]
pub struct BlockParser {
    containers: Vec<OpenContainer>,
    /// For the document and for each open container the list in it whose next item may follow.
    lists: Vec<Option<ItemCount>>,
    leaf: OpenLeaf,
    events: Vec<BlockEvent>,
}

impl BlockParser {
    /// Creates a parser at the start of a text.
    pub fn new() -> Self {
        Self { containers: Vec::new(), lists: vec![None], leaf: OpenLeaf::None, events: Vec::new() }
    }

    /// Takes the next line or piece of a line. Returns the events that are certain now.
    pub fn feed(&mut self, piece: &SourcePiece) -> Vec<BlockEvent> {
        if piece.begins_line {
            self.feed_line(&piece.text);
        } else {
            self.feed_rest_of_line(&piece.text);
        }
        self.divide_long_paragraph();
        std::mem::take(&mut self.events)
    }

    /// Ends the text. Returns the events of everything that was open.
    pub fn finish(&mut self) -> Vec<BlockEvent> {
        self.close_containers(0);
        std::mem::take(&mut self.events)
    }

    /// Returns the bytes of text that are kept.
    #[cfg(test)]
    pub fn kept_bytes(&self) -> usize {
        let text = if let OpenLeaf::Paragraph { text, .. } = &self.leaf { text.len() } else { 0 };
        text + size_of_val(&self.containers[..]) + size_of_val(&self.lists[..]) + size_of_val(&self.events[..])
    }

    fn feed_line(&mut self, line: &str) {
        let (continued, mut at) = self.continue_containers(line);
        let is_inside = continued == self.containers.len();
        if is_inside && self.continue_leaf(&line[at..]) {
            return;
        }
        let mut context = match self.leaf {
            OpenLeaf::Paragraph { .. } if is_inside => LineContext::Paragraph,
            OpenLeaf::Paragraph { .. } => LineContext::LazyParagraph,
            _ => LineContext::Free,
        };
        // Containers start one inside the other until a block of text starts, or text.
        let mut has_new_container = false;
        while let Some(start) = block_start(&line[at..], context) {
            let content = match &start {
                BlockStart::Quote { content }
                | BlockStart::Footnote { content, .. }
                | BlockStart::ListItem { content, .. } => *content,
                BlockStart::Underline { level } => return self.underline(*level),
                _ => {
                    self.close_unless_new(continued, has_new_container);
                    return self.start_leaf(start, &line[at..]);
                }
            };
            self.close_unless_new(continued, has_new_container);
            if self.containers.len() >= MARKDOWN_DEPTH {
                break;
            }
            self.start_container(start);
            at = (at + content).min(line.len());
            (context, has_new_container) = (LineContext::Free, true);
        }
        let text = &line[at..];
        if is_blank(text) {
            self.close_unless_new(continued, has_new_container);
            if !has_new_container {
                self.events.push(BlockEvent::BlankLine);
            }
            return;
        }
        if let OpenLeaf::Paragraph { .. } = self.leaf {
            return self.continue_paragraph(text.trim_start_matches(' '), is_inside);
        }
        self.close_unless_new(continued, has_new_container);
        self.start_paragraph(text.trim_start_matches(' '));
    }

    /// Closes what a line has left, before the first block that starts in it.
    fn close_unless_new(&mut self, continued: usize, has_new_container: bool) {
        if !has_new_container {
            self.close_containers(continued);
        }
    }

    /// Takes the next piece of a long line, which starts nothing.
    fn feed_rest_of_line(&mut self, piece: &str) {
        match &mut self.leaf {
            OpenLeaf::Paragraph { text, .. } => text.push_str(piece),
            OpenLeaf::Fence(_) | OpenLeaf::IndentedCode { .. } => {
                self.events.push(BlockEvent::CodeLine(piece.to_owned()))
            }
            OpenLeaf::Html(_) => self.events.push(BlockEvent::HtmlLine(piece.to_owned())),
            OpenLeaf::Table { columns } => self.events.push(BlockEvent::TableRow(split_row(piece, *columns))),
            OpenLeaf::None if is_blank(piece) => {}
            OpenLeaf::None => self.start_paragraph(piece),
        }
    }

    /// Returns the number of containers that a line continues, and where its rest begins.
    fn continue_containers(&self, line: &str) -> (usize, usize) {
        let mut at = 0;
        for (index, container) in self.containers.iter().enumerate() {
            let rest = &line[at..];
            let blanks = indentation(rest);
            match container.indent {
                None if blanks < CODE_INDENT && rest[blanks..].starts_with('>') => {
                    at += blanks + 1;
                    at += usize::from(line[at..].starts_with(' '));
                }
                // An item may begin with one blank line.
                Some(indent) if is_blank(rest) && !container.is_empty => at += indent.min(blanks),
                Some(indent) if !is_blank(rest) && blanks >= indent => at += indent,
                _ => return (index, at),
            }
        }
        (self.containers.len(), at)
    }

    /// Adds a line to a block of text other than a paragraph. Returns `false` if it does not belong to the block, which
    /// then has ended.
    fn continue_leaf(&mut self, line: &str) -> bool {
        match &mut self.leaf {
            OpenLeaf::None | OpenLeaf::Paragraph { .. } => return false,
            OpenLeaf::Fence(fence) if is_fence_end(line, *fence) => self.close_leaf(),
            OpenLeaf::Fence(fence) => {
                let blanks = indentation(line).min(fence.indent);
                self.events.push(BlockEvent::CodeLine(line[blanks..].to_owned()));
            }
            OpenLeaf::IndentedCode { ends_blank } if is_blank(line) => *ends_blank = true,
            OpenLeaf::IndentedCode { ends_blank } if indentation(line) >= CODE_INDENT => {
                if std::mem::take(ends_blank) {
                    self.events.push(BlockEvent::CodeLine(String::new()));
                }
                self.events.push(BlockEvent::CodeLine(line[CODE_INDENT..].to_owned()));
            }
            OpenLeaf::Html(HtmlEnd::Blank) if is_blank(line) => {
                self.close_leaf();
                return false;
            }
            OpenLeaf::Html(end) => {
                let ends = end.is_in(line);
                self.events.push(BlockEvent::HtmlLine(line.to_owned()));
                if ends {
                    self.close_leaf();
                }
            }
            // What may interrupt a paragraph ends a table.
            OpenLeaf::Table { columns }
                if !is_blank(line) && block_start(line, LineContext::LazyParagraph).is_none() =>
            {
                self.events.push(BlockEvent::TableRow(split_row(line, *columns)));
            }
            OpenLeaf::IndentedCode { .. } | OpenLeaf::Table { .. } => {
                self.close_leaf();
                return false;
            }
        }
        true
    }

    fn start_container(&mut self, start: BlockStart<'_>) {
        let (kind, indent, list) = match start {
            BlockStart::Footnote { label, .. } => (ContainerKind::Footnote(label.to_owned()), Some(CODE_INDENT), None),
            BlockStart::ListItem { marker, punctuation, content } => {
                let (marker, list) = self.count_item(marker, punctuation);
                (ContainerKind::ListItem(marker), Some(content), Some(list))
            }
            _ => (ContainerKind::Quote, None, None),
        };
        self.fill_container(list);
        self.containers.push(OpenContainer { indent, is_empty: true });
        self.lists.push(None);
        self.events.push(BlockEvent::ContainerStart(kind));
    }

    /// Returns the marker of an item with the number that it has in its list.
    fn count_item(&self, marker: ItemMarker, punctuation: ListPunctuation) -> (ItemMarker, ItemCount) {
        let count = self.lists.last().copied().flatten().filter(|list| list.punctuation == punctuation);
        let number = match (marker, count) {
            (ItemMarker::Bullet, _) => return (marker, ItemCount { punctuation, next: 0 }),
            (ItemMarker::Ordinal(_), Some(list)) => list.next,
            (ItemMarker::Ordinal(first), None) => first,
        };
        (ItemMarker::Ordinal(number), ItemCount { punctuation, next: number.saturating_add(1) })
    }

    /// Notes that a block starts in the innermost container: an item of `list`, or something that ends the list there.
    fn fill_container(&mut self, list: Option<ItemCount>) {
        if let Some(container) = self.containers.last_mut() {
            container.is_empty = false;
        }
        if let Some(last) = self.lists.last_mut() {
            *last = list;
        }
    }

    fn start_leaf(&mut self, start: BlockStart<'_>, line: &str) {
        self.fill_container(None);
        match start {
            BlockStart::Heading { level, text } => {
                self.events.push(BlockEvent::Heading { level, text: text.to_owned() });
            }
            BlockStart::Fence { fence, info } => {
                self.events.push(BlockEvent::CodeStart { info: info.to_owned() });
                self.leaf = OpenLeaf::Fence(fence);
            }
            BlockStart::Html(end) => {
                self.leaf = OpenLeaf::Html(end);
                self.continue_leaf(line);
            }
            BlockStart::IndentedCode => {
                self.events.push(BlockEvent::CodeStart { info: String::new() });
                self.leaf = OpenLeaf::IndentedCode { ends_blank: false };
                self.continue_leaf(line);
            }
            _ => self.events.push(BlockEvent::Rule),
        }
    }

    fn start_paragraph(&mut self, text: &str) {
        self.fill_container(None);
        self.leaf = OpenLeaf::Paragraph { text: text.to_owned(), continues: false };
    }

    /// Adds a line to the open paragraph, or makes its last line the header of a table.
    fn continue_paragraph(&mut self, line: &str, is_inside: bool) {
        let OpenLeaf::Paragraph { text, continues } = &mut self.leaf else { return };
        let header_from = text.rfind('\n').map_or(0, |end| end + 1);
        let header = split_cells(&text[header_from..]);
        let is_table = is_inside && header.len() <= MARKDOWN_TABLE_COLUMNS;
        let alignments = delimiter_row(line).filter(|alignments| is_table && alignments.len() == header.len());
        let Some(alignments) = alignments else {
            text.push('\n');
            text.push_str(line);
            return;
        };
        if header_from > 0 {
            text.truncate(header_from - 1);
            let (text, continues) = (std::mem::take(text), *continues);
            self.events.push(BlockEvent::Paragraph { text, continues });
        }
        self.leaf = OpenLeaf::Table { columns: alignments.len() };
        self.events.push(BlockEvent::TableStart { header, alignments });
    }

    /// Makes the open paragraph a heading.
    fn underline(&mut self, level: u8) {
        if let OpenLeaf::Paragraph { text, .. } = std::mem::take(&mut self.leaf) {
            self.events.push(BlockEvent::Heading { level, text });
        }
    }

    /// Passes on the first part of a paragraph that is longer than its bound, up to its last line or word within it.
    fn divide_long_paragraph(&mut self) {
        while let OpenLeaf::Paragraph { text, continues } = &mut self.leaf
            && text.len() > MARKDOWN_PARAGRAPH_BYTES
        {
            let bound = text.floor_char_boundary(MARKDOWN_PARAGRAPH_BYTES);
            let start = &text[..bound];
            let end = start.rfind('\n').or_else(|| start.rfind(' ')).filter(|end| *end > 0);
            let rest = text.split_off(end.map_or(bound, |end| end + 1));
            text.truncate(end.unwrap_or(bound));
            let text = std::mem::replace(text, rest);
            self.events.push(BlockEvent::Paragraph { text, continues: std::mem::replace(continues, true) });
        }
    }

    fn close_containers(&mut self, left_open: usize) {
        self.close_leaf();
        while self.containers.len() > left_open {
            self.containers.pop();
            self.lists.pop();
            self.events.push(BlockEvent::ContainerEnd);
        }
    }

    fn close_leaf(&mut self) {
        match std::mem::take(&mut self.leaf) {
            OpenLeaf::None | OpenLeaf::Html(_) => {}
            OpenLeaf::Paragraph { text, continues } => self.events.push(BlockEvent::Paragraph { text, continues }),
            OpenLeaf::Fence(_) => self.events.push(BlockEvent::CodeEnd),
            OpenLeaf::IndentedCode { ends_blank } => {
                self.events.push(BlockEvent::CodeEnd);
                if ends_blank {
                    self.events.push(BlockEvent::BlankLine);
                }
            }
            OpenLeaf::Table { .. } => self.events.push(BlockEvent::TableEnd),
        }
    }
}
