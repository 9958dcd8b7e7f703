//! Lines of a terminal out of the events of a text.

use ratatui_core::style::Style;

use super::{
    block_event::{BlockEvent, ColumnAlignment, ContainerKind, ItemMarker},
    code_highlighter::CodeHighlighter,
    inline::InlineRenderer,
    table_layout::{TableBorder, TableCell, TableLayout, TableRoom},
    wrapping::{InlineRun, wrap, wrap_hard},
};
use crate::{
    display_width::display_width,
    limits::{HIGHLIGHTED_TEXT_BYTES, MARKDOWN_TABLE_BYTES},
    safe_text::safe_line,
    styled_line::StyledLine,
    theme::{StyleRole, Theme},
};

/// The most columns of a thematic break.
const RULE_COLUMNS: usize = 40;

/// The columns by which code is indented in colours, and without them.
const CODE_COLUMNS: [usize; 2] = [2, 4];

/// Marks of finished and unfinished tasks at the start of a list item.
const TASK_MARKS: [(&str, StyleRole); 3] =
    [("[ ]", StyleRole::Muted), ("[x]", StyleRole::Success), ("[X]", StyleRole::Success)];

/// A container with what its lines begin with.
#[derive(Debug, Clone)]
struct ContainerPrefix {
    /// The start of its first line, until that was written; for a quote the start of each.
    marker: String,
    /// The start of its other lines.
    continuation: String,
    style: Style,
    is_item: bool,
    is_written: bool,
}

/// The block that was shown last.
#[derive(Debug, Clone, Copy)]
struct LastBlock {
    /// `true` if a blank line follows it in any case.
    stands_alone: bool,
}

/// The kind of a block that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownBlock {
    Text,
    Heading,
    Code,
    Html,
    Table,
    Rule,
}

impl ShownBlock {
    /// Returns `true` if a blank line separates it from other blocks in any case.
    fn stands_alone(self) -> bool {
        matches!(self, Self::Heading | Self::Code | Self::Table | Self::Rule)
    }
}

/// The table that is open.
#[derive(Debug, Clone)]
struct OpenTable {
    header: Vec<String>,
    alignments: Vec<ColumnAlignment>,
    /// Rows that are not shown yet.
    rows: Vec<Vec<String>>,
    /// The bytes of these.
    bytes: usize,
    /// The layout, once rows were shown.
    layout: Option<TableLayout>,
}

/// The block of code that is open.
#[derive(Debug, Clone)]
struct OpenCode {
    highlighter: CodeHighlighter,
    has_lines: bool,
}

/// Renders blocks one after another.
#[derive(Debug, Clone)]
pub struct BlockRenderer {
    pub inline: InlineRenderer,
    /// The columns of the terminal.
    pub width: usize,
    containers: Vec<ContainerPrefix>,
    /// The outermost containers that have been open since the last line.
    shared: usize,
    follows_blank: bool,
    last: Option<LastBlock>,
    code: Option<OpenCode>,
    /// The bytes of code that may still be highlighted.
    highlighted_left: usize,
    table: Option<OpenTable>,
    lines: Vec<StyledLine>,
}

impl BlockRenderer {
    /// Creates a renderer for an empty text.
    pub fn new(inline: InlineRenderer, width: usize) -> Self {
        Self {
            inline,
            width,
            containers: Vec::new(),
            shared: 0,
            follows_blank: false,
            last: None,
            code: None,
            highlighted_left: HIGHLIGHTED_TEXT_BYTES,
            table: None,
            lines: Vec::new(),
        }
    }

    /// Returns the lines that the events have added.
    pub fn take_lines(&mut self) -> Vec<StyledLine> {
        std::mem::take(&mut self.lines)
    }

    /// Returns the bytes of text that are kept.
    #[cfg(test)]
    pub fn kept_bytes(&self) -> usize {
        let table = self.table.as_ref().map_or(0, |table| table.bytes);
        table + size_of_val(&self.containers[..]) + size_of_val(&self.lines[..])
    }

    /// Adds what an event shows.
    pub fn add(&mut self, event: BlockEvent) {
        match event {
            BlockEvent::ContainerStart(kind) => self.containers.push(prefix_of(&kind, self.theme())),
            BlockEvent::ContainerEnd => self.end_container(),
            BlockEvent::BlankLine => self.follows_blank = true,
            BlockEvent::Paragraph { text, continues } => self.add_paragraph(&text, continues),
            BlockEvent::Heading { level, text } => self.add_heading(level, &text),
            BlockEvent::Rule => {
                self.begin_block(ShownBlock::Rule);
                let dash = if self.theme().is_plain() { "-" } else { "─" };
                let columns = self.available().min(RULE_COLUMNS);
                self.push_lines(vec![StyledLine::styled(&dash.repeat(columns), self.theme().style(StyleRole::Muted))]);
            }
            BlockEvent::CodeStart { info } => {
                let highlighter = CodeHighlighter::new(&info, self.theme());
                self.code = Some(OpenCode { highlighter, has_lines: false });
            }
            BlockEvent::CodeLine(line) => self.add_code_line(&line),
            BlockEvent::CodeEnd => self.code = None,
            BlockEvent::HtmlLine(line) => {
                self.begin_block(ShownBlock::Html);
                let text = safe_line(&line).into_owned();
                let run = InlineRun { text, style: self.theme().style(StyleRole::Muted), link: None };
                self.push_lines(wrap(&[run], self.available()));
            }
            BlockEvent::TableStart { header, alignments } => {
                self.table = Some(OpenTable { header, alignments, rows: Vec::new(), bytes: 0, layout: None });
            }
            BlockEvent::TableRow(row) => self.add_table_row(row),
            BlockEvent::TableEnd => {
                if let Some(mut table) = self.table.take() {
                    self.show_table(&mut table, false);
                }
            }
        }
    }

    fn theme(&self) -> &Theme {
        &self.inline.theme
    }

    fn add_paragraph(&mut self, text: &str, continues: bool) {
        if !continues {
            self.begin_block(ShownBlock::Text);
        }
        // The mark of a task is text for the inline parser.
        let is_item_start = self.containers.last().is_some_and(|container| !container.is_written);
        let task = TASK_MARKS.into_iter().find(|(mark, _)| is_item_start && is_task(text, mark));
        let rest = task.map_or(text, |(mark, _)| &text[mark.len()..]);
        let mut lines = self.inline.render(rest.trim_start_matches(' '), Style::new());
        if let (Some((mark, role)), Some(first)) = (task, lines.first_mut()) {
            first.insert(0, InlineRun { text: format!("{mark} "), style: self.theme().style(role), link: None });
        }
        self.push_wrapped(&lines);
    }

    fn add_heading(&mut self, level: u8, text: &str) {
        self.begin_block(ShownBlock::Heading);
        let style = self.theme().style(if level <= 2 { StyleRole::Title } else { StyleRole::Heading });
        let mut lines = self.inline.render(text, style);
        if let Some(first) = lines.first_mut() {
            let marks = format!("{} ", "#".repeat(level.into()));
            first.insert(0, InlineRun { text: marks, style, link: None });
        }
        self.push_wrapped(&lines);
    }

    fn add_code_line(&mut self, line: &str) {
        let Some(mut code) = self.code.take() else { return };
        if !std::mem::replace(&mut code.has_lines, true) {
            self.begin_block(ShownBlock::Code);
        }
        let available = self.available();
        let indent = CODE_COLUMNS[usize::from(self.theme().is_plain())];
        // Where there is little room, all of it is for the code.
        let indent = if available > 4 * indent { indent } else { 0 };
        let runs = code.highlighter.highlight(line, &self.inline.theme, &mut self.highlighted_left);
        let lines = wrap_hard(&runs, available - indent).into_iter().map(|line| match line.is_empty() {
            true => line,
            false => {
                let mut indented = StyledLine::from(" ".repeat(indent).as_str());
                indented.append(&line);
                indented
            }
        });
        self.push_lines(lines.collect());
        self.code = Some(code);
    }

    fn add_table_row(&mut self, row: Vec<String>) {
        let Some(mut table) = self.table.take() else { return };
        table.bytes += row.iter().map(|cell| size_of::<String>() + cell.len()).sum::<usize>();
        table.rows.push(row);
        if table.layout.is_some() || table.bytes > MARKDOWN_TABLE_BYTES {
            self.show_table(&mut table, true);
        }
        self.table = Some(table);
    }

    /// Shows the rows of a table that were not shown yet, and the header before the first of them.
    fn show_table(&mut self, table: &mut OpenTable, more_rows_follow: bool) {
        table.bytes = 0;
        let rows: Vec<Vec<TableCell>> =
            std::mem::take(&mut table.rows).iter().map(|row| self.cells(row, Style::new())).collect();
        let layout = match &mut table.layout {
            Some(layout) => layout,
            None => {
                self.begin_block(ShownBlock::Table);
                let theme = self.theme();
                let (vertical, horizontal, crossing) =
                    if theme.is_plain() { ("|", "-", "|") } else { ("│", "─", "┼") };
                let style = theme.style(StyleRole::Muted);
                let border = TableBorder { style, vertical, horizontal, crossing };
                let header = self.cells(&table.header, theme.style(StyleRole::Strong));
                let room = TableRoom { columns: self.available(), more_rows_follow };
                let layout = TableLayout::fit(header, &rows, table.alignments.clone(), border, room);
                self.push_lines(layout.header_lines(!rows.is_empty()));
                table.layout.insert(layout)
            }
        };
        for row in &rows {
            self.push_lines(layout.row_lines(row));
        }
    }

    fn cells(&self, row: &[String], style: Style) -> Vec<TableCell> {
        row.iter().map(|cell| self.inline.render(cell, style)).collect()
    }

    /// Adds the blank line before a block if one is needed.
    fn begin_block(&mut self, block: ShownBlock) {
        // In a list the indentation tells blocks apart, and blank lines would tear the items apart.
        let is_in_list = self.containers.iter().any(|container| container.is_item);
        let needs_blank = self
            .last
            .is_some_and(|last| self.follows_blank || last.stands_alone || (block.stands_alone() && !is_in_list));
        if needs_blank {
            let mut line = self.prefix(self.shared, false);
            line.trim_end();
            self.lines.push(line);
        }
        self.last = Some(LastBlock { stands_alone: block.stands_alone() && !is_in_list });
        self.follows_blank = false;
    }

    fn end_container(&mut self) {
        // An item without text has its marker alone.
        if self.containers.last().is_some_and(|container| !container.is_written) {
            self.begin_block(ShownBlock::Text);
            self.push_lines(vec![StyledLine::default()]);
        }
        self.containers.pop();
        self.shared = self.shared.min(self.containers.len());
    }

    fn push_wrapped(&mut self, lines: &[Vec<InlineRun>]) {
        let columns = self.available();
        self.push_lines(lines.iter().flat_map(|runs| wrap(runs, columns)).collect());
    }

    /// Adds lines of the innermost container.
    fn push_lines(&mut self, lines: Vec<StyledLine>) {
        for line in lines {
            let mut prefixed = self.prefix(self.containers.len(), true);
            prefixed.append(&line);
            if line.is_empty() {
                prefixed.trim_end();
            }
            self.lines.push(prefixed);
            self.containers.iter_mut().for_each(|container| container.is_written = true);
            self.shared = self.containers.len();
        }
    }

    /// Returns the columns of a line beside its prefix, at least one.
    fn available(&self) -> usize {
        let prefix = self.shown_containers(self.containers.len()).iter().map(ContainerPrefix::columns).sum::<usize>();
        self.width.saturating_sub(prefix).max(1)
    }

    /// Returns those of the outermost containers whose prefixes are shown: the innermost ones of them that fit into half a
    /// line.
    fn shown_containers(&self, outermost: usize) -> &[ContainerPrefix] {
        let (mut from, mut columns) = (outermost, 0);
        while from > 0 {
            columns += self.containers[from - 1].columns();
            if columns > self.width / 2 {
                break;
            }
            from -= 1;
        }
        &self.containers[from..outermost]
    }

    fn prefix(&self, outermost: usize, has_markers: bool) -> StyledLine {
        let mut line = StyledLine::default();
        for container in self.shown_containers(outermost) {
            if has_markers && !container.is_written {
                line.push(&container.marker, container.style);
            } else {
                let style = if container.continuation.trim().is_empty() { Style::new() } else { container.style };
                line.push(&container.continuation, style);
            }
        }
        line
    }
}

impl ContainerPrefix {
    fn columns(&self) -> usize {
        display_width(&self.marker)
    }
}

fn prefix_of(kind: &ContainerKind, theme: &Theme) -> ContainerPrefix {
    let (marker, role) = match kind {
        ContainerKind::Quote => {
            let bar = if theme.is_plain() { "> " } else { "│ " };
            let style = theme.style(StyleRole::Muted);
            // An empty quote has nothing to show.
            let (marker, continuation) = (bar.into(), bar.into());
            return ContainerPrefix { marker, continuation, style, is_item: false, is_written: true };
        }
        ContainerKind::ListItem(ItemMarker::Bullet) if theme.is_plain() => ("* ".into(), StyleRole::ListMarker),
        ContainerKind::ListItem(ItemMarker::Bullet) => ("• ".into(), StyleRole::ListMarker),
        ContainerKind::ListItem(ItemMarker::Ordinal(number)) => (format!("{number}. "), StyleRole::ListMarker),
        ContainerKind::Footnote(label) => (safe_line(&format!("[^{label}]: ")).into_owned(), StyleRole::Muted),
    };
    let continuation = " ".repeat(display_width(&marker));
    let is_item = matches!(kind, ContainerKind::ListItem(_));
    ContainerPrefix { marker, continuation, style: theme.style(role), is_item, is_written: false }
}

/// Returns `true` if the text of a list item begins with this mark of a task.
fn is_task(text: &str, mark: &str) -> bool {
    text.strip_prefix(mark).is_some_and(|rest| rest.starts_with(' '))
}
