//! Tables at a terminal: columns that fit into the width, or one record for each row if they cannot.

use ratatui_core::style::Style;

use super::{
    block_event::ColumnAlignment,
    wrapping::{InlineRun, wrap},
};
use crate::{display_width::display_width, styled_line::StyledLine};

/// The fewest columns of the terminal that a column of a table is wrapped to.
const LEAST_COLUMN: usize = 5;

/// A cell: the runs of each of its lines.
pub type TableCell = Vec<Vec<InlineRun>>;

/// The characters between columns and under the header.
#[derive(Debug, Clone, Copy)]
pub struct TableBorder {
    pub style: Style,
    pub vertical: &'static str,
    pub horizontal: &'static str,
    pub crossing: &'static str,
}

/// The columns of the terminal for a table.
#[derive(Debug, Clone, Copy)]
pub struct TableRoom {
    pub columns: usize,
    /// `true` if the table has more rows than are known yet.
    pub more_rows_follow: bool,
}

/// The form in which the rows of a table are shown.
#[derive(Debug, Clone)]
enum TableForm {
    /// Columns of these widths. They are `ruled` if a row takes several lines, which could not be told from several rows.
    Columns { widths: Vec<usize>, is_ruled: bool },
    /// One line or more for each cell, headed by its column.
    Records { columns: usize },
}

/// The layout of a table, which later rows follow.
#[derive(Debug, Clone)]
pub struct TableLayout {
    header: Vec<TableCell>,
    alignments: Vec<ColumnAlignment>,
    border: TableBorder,
    form: TableForm,
    has_rows: bool,
}

impl TableLayout {
    /// Fits a table with these rows into so many columns of the terminal. If more rows follow than are known yet, its last
    /// column takes all room that is left.
    pub fn fit(
        header: Vec<TableCell>,
        rows: &[Vec<TableCell>],
        alignments: Vec<ColumnAlignment>,
        border: TableBorder,
        room: TableRoom,
    ) -> Self {
        let available = room.columns;
        let form = match column_widths(&header, rows, &border, room) {
            Some(widths) => {
                let is_tall =
                    |row: &Vec<TableCell>| row.iter().zip(&widths).any(|(cell, width)| is_wrapped(cell, *width));
                let is_ruled = rows.iter().any(is_tall);
                TableForm::Columns { widths, is_ruled }
            }
            None => TableForm::Records { columns: available },
        };
        Self { header, alignments, border, form, has_rows: false }
    }

    /// Returns the lines of the header. A table of records has none, unless it has no `rows`.
    pub fn header_lines(&self, has_rows: bool) -> Vec<StyledLine> {
        match &self.form {
            TableForm::Columns { widths, .. } => {
                let mut lines = self.row_in_columns(&self.header, widths);
                lines.push(self.rule(widths));
                lines
            }
            TableForm::Records { .. } if has_rows => Vec::new(),
            TableForm::Records { columns } => self.header.iter().flat_map(|cell| wrap_cell(cell, *columns)).collect(),
        }
    }

    /// Returns the lines of the next row, and before it the line that separates it from the row before it.
    pub fn row_lines(&mut self, row: &[TableCell]) -> Vec<StyledLine> {
        let is_first = !std::mem::replace(&mut self.has_rows, true);
        match &self.form {
            TableForm::Columns { widths, is_ruled } => {
                let mut lines = self.row_in_columns(row, widths);
                if *is_ruled && !is_first {
                    lines.insert(0, self.rule(widths));
                }
                lines
            }
            TableForm::Records { columns } => {
                let mut lines = if is_first { Vec::new() } else { vec![StyledLine::default()] };
                for (name, cell) in self.header.iter().zip(row).filter(|(_, cell)| !is_empty(cell)) {
                    lines.extend(wrap_cell(&named_cell(name, cell), *columns));
                }
                lines
            }
        }
    }

    fn row_in_columns(&self, row: &[TableCell], widths: &[usize]) -> Vec<StyledLine> {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| wrap_cell(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let mut lines = Vec::with_capacity(height);
        for at in 0..height {
            let mut line = StyledLine::default();
            for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                if column > 0 {
                    line.push(&format!(" {} ", self.border.vertical), self.border.style);
                }
                let text = cell.get(at).cloned().unwrap_or_default();
                let blanks = width.saturating_sub(text.width());
                let before = match self.alignments.get(column) {
                    Some(ColumnAlignment::Right) => blanks,
                    Some(ColumnAlignment::Centre) => blanks / 2,
                    _ => 0,
                };
                line.push(&" ".repeat(before), Style::new());
                line.append(&text);
                line.push(&" ".repeat(blanks - before), Style::new());
            }
            // Blanks at the end of a line would be selected with it.
            line.trim_end();
            lines.push(line);
        }
        lines
    }

    fn rule(&self, widths: &[usize]) -> StyledLine {
        let TableBorder { style, horizontal, crossing, .. } = self.border;
        let parts: Vec<_> = widths.iter().map(|width| horizontal.repeat(*width)).collect();
        StyledLine::styled(&parts.join(&format!("{horizontal}{crossing}{horizontal}")), style)
    }
}

/// Returns the widths of the columns; `None` if they do not fit.
fn column_widths(
    header: &[TableCell],
    rows: &[Vec<TableCell>],
    border: &TableBorder,
    room: TableRoom,
) -> Option<Vec<usize>> {
    let natural: Vec<_> = (0..header.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).chain([&header[column]]);
            cells.flatten().map(|line| runs_width(line)).max().unwrap_or(0).max(1)
        })
        .collect();
    let gaps = (2 + display_width(border.vertical)) * header.len().saturating_sub(1);
    let available = room.columns.checked_sub(gaps)?;
    if natural.iter().map(|width| (*width).min(LEAST_COLUMN)).sum::<usize>() > available {
        return None;
    }
    let mut widths = natural.clone();
    if natural.iter().sum::<usize>() > available {
        // Columns that need less than an equal share of what is left keep their width; the others share the rest.
        let mut order: Vec<_> = (0..natural.len()).collect();
        order.sort_by_key(|column| natural[*column]);
        let mut left = available;
        for (done, column) in order.into_iter().enumerate() {
            widths[column] = natural[column].min(left / (natural.len() - done));
            left -= widths[column];
        }
    }
    if room.more_rows_follow {
        let unused = available - widths.iter().sum::<usize>();
        *widths.last_mut()? += unused;
    }
    Some(widths)
}

fn runs_width(runs: &[InlineRun]) -> usize {
    runs.iter().map(|run| display_width(&run.text)).sum()
}

fn is_wrapped(cell: &TableCell, width: usize) -> bool {
    cell.len() > 1 || cell.iter().any(|line| runs_width(line) > width)
}

fn is_empty(cell: &TableCell) -> bool {
    cell.iter().all(Vec::is_empty)
}

fn wrap_cell(cell: &TableCell, columns: usize) -> Vec<StyledLine> {
    cell.iter().flat_map(|line| wrap(line, columns)).collect()
}

/// Returns a cell that begins with the name of its column.
fn named_cell(name: &TableCell, cell: &TableCell) -> TableCell {
    let mut first: Vec<_> = name.iter().flatten().cloned().collect();
    if let Some(last) = first.last_mut() {
        last.text.push_str(": ");
    }
    let mut lines = cell.clone();
    if let Some(line) = lines.first_mut() {
        first.append(line);
        *line = first;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const BORDER: TableBorder = TableBorder { style: Style::new(), vertical: "|", horizontal: "-", crossing: "|" };

    fn cell(text: &str) -> TableCell {
        text.split('\n')
            .map(|line| match line {
                "" => Vec::new(),
                line => vec![InlineRun { text: line.to_owned(), style: Style::new(), link: None }],
            })
            .collect()
    }

    fn table(rows: &[&[&str]], available: usize) -> Vec<String> {
        let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
        let alignments = vec![ColumnAlignment::Left, ColumnAlignment::Right, ColumnAlignment::Centre];
        let room = TableRoom { columns: available, more_rows_follow: false };
        let mut layout = TableLayout::fit(rows[0].clone(), &rows[1..], alignments, BORDER, room);
        let mut lines = layout.header_lines(rows.len() > 1);
        rows[1..].iter().for_each(|row| lines.extend(layout.row_lines(row)));
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        assert_eq!(
            table(&[&["name", "n", "mid"], &["a", "100", "b"], &["日本", "2", ""]], 80),
            ["name |   n | mid", "-----|-----|----", "a    | 100 |  b", "日本 |   2 |"]
        );
    }

    #[test]
    fn wide_columns_share_the_room_and_wrap() {
        assert_eq!(
            table(&[&["id", "text"], &["1", "one two three"], &["2", "four"]], 13),
            ["id |     text", "---|---------", "1  |  one two", "   |    three", "---|---------", "2  |     four"]
        );
    }

    #[test]
    fn too_narrow_table_becomes_records() {
        assert_eq!(
            table(&[&["name", "value"], &["first", "one two"], &["second", ""], &["", "b\nc"]], 11),
            ["name: first", "value: one", "two", "", "name:", "second", "", "value: b", "c"]
        );
        assert_eq!(table(&[&["name", "value"]], 11), ["name", "value"]);
        assert_eq!(table(&[&["name", "value"]], 12), ["name | value", "-----|------"]);
    }

    #[test]
    fn one_column_of_terminal_shows_records() {
        assert_eq!(table(&[&["a", "b"], &["1", ""]], 1), ["a", ":", "1"]);
    }
}
