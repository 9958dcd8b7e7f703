//! The structure of Markdown as a sequence of events, in the order of the text.

/// The marker of a list item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemMarker {
    Bullet,
    /// The number of the item, counted from the number of the list's first item.
    Ordinal(u64),
}

/// The kind of a block that contains blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerKind {
    Quote,
    ListItem(ItemMarker),
    /// The definition of a footnote with this label.
    Footnote(String),
}

/// The alignment of a column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnAlignment {
    Left,
    Centre,
    Right,
}

/// One step through the structure of a text. Texts are Markdown whose inline markup is not parsed yet, except for code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockEvent {
    ContainerStart(ContainerKind),
    ContainerEnd,
    /// A blank line between blocks.
    BlankLine,
    /// A paragraph, its lines separated by `\n`. One that `continues` is the next part of a long paragraph.
    Paragraph {
        text: String,
        continues: bool,
    },
    Heading {
        level: u8,
        text: String,
    },
    Rule,
    /// The start of a block of code with its info string.
    CodeStart {
        info: String,
    },
    CodeLine(String),
    CodeEnd,
    /// A line of an HTML block.
    HtmlLine(String),
    TableStart {
        header: Vec<String>,
        alignments: Vec<ColumnAlignment>,
    },
    TableRow(Vec<String>),
    TableEnd,
}
