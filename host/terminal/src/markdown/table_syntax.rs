//! Rows of tables in GitHub Flavored Markdown.

use super::block_event::ColumnAlignment;

/// Returns the cells of a row, their inline markup not parsed yet.
pub fn split_cells(row: &str) -> Vec<String> {
    let row = row.trim_matches(' ');
    let mut chars = row.strip_prefix('|').unwrap_or(row).chars().peekable();
    let (mut cells, mut cell) = (Vec::new(), String::new());
    while let Some(c) = chars.next() {
        match c {
            // An escaped bar is text, in code too.
            '\\' if chars.peek() == Some(&'|') => cell.extend(chars.next()),
            // Of other escapes the next character is taken too, so that a second backslash escapes no bar.
            '\\' => {
                cell.push(c);
                cell.extend(chars.next());
            }
            '|' => cells.push(std::mem::take(&mut cell)),
            _ => cell.push(c),
        }
    }
    if !cell.trim_matches(' ').is_empty() || cells.is_empty() {
        cells.push(cell);
    }
    cells.iter().map(|cell| cell.trim_matches(' ').to_owned()).collect()
}

/// Returns the cells of a row of a table with so many columns. Missing cells are empty; the last one has the text of further
/// cells.
pub fn split_row(row: &str, columns: usize) -> Vec<String> {
    let mut cells = split_cells(row);
    if cells.len() > columns {
        let rest = cells.split_off(columns.saturating_sub(1));
        cells.push(rest.join(" | "));
    }
    cells.resize(columns, String::new());
    cells
}

/// Returns the alignments of a row such as `|:--|--:|`; `None` for any other line.
pub fn delimiter_row(line: &str) -> Option<Vec<ColumnAlignment>> {
    if !line.contains('|') || !line.bytes().all(|byte| matches!(byte, b'|' | b'-' | b':' | b' ')) {
        return None;
    }
    split_cells(line).iter().map(|cell| alignment(cell)).collect()
}

fn alignment(cell: &str) -> Option<ColumnAlignment> {
    let (starts, ends) = (cell.starts_with(':'), cell.len() > 1 && cell.ends_with(':'));
    let dashes = &cell[usize::from(starts)..cell.len() - usize::from(ends)];
    let is_delimiter = !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-');
    is_delimiter.then_some(match (starts, ends) {
        (true, true) => ColumnAlignment::Centre,
        (false, true) => ColumnAlignment::Right,
        _ => ColumnAlignment::Left,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_separated_by_bars_without_escape() {
        for (row, cells) in [
            ("| a | b |", &["a", "b"][..]),
            ("a | b", &["a", "b"]),
            ("| a \\| b | `c\\|d` |", &["a | b", "`c|d`"]),
            ("a \\\\| b", &["a \\\\", "b"]),
            ("| | b", &["", "b"]),
            ("|", &[""]),
            ("a\\", &["a\\"]),
        ] {
            assert_eq!(split_cells(row), cells, "{row}");
        }
    }

    #[test]
    fn rows_have_the_columns_of_the_header() {
        assert_eq!(split_row("a|b", 3), ["a", "b", ""]);
        assert_eq!(split_row("a|b|c", 2), ["a", "b | c"]);
        assert_eq!(split_row("a|b", 1), ["a | b"]);
    }

    #[test]
    fn delimiters_say_the_alignment() {
        use ColumnAlignment::{Centre, Left, Right};
        assert_eq!(delimiter_row("| - | :-- | --: |:-:|"), Some(vec![Left, Left, Right, Centre]));
        for line in ["---", "| a |", "| |", "|:|", "||", "|::|", "| - - |"] {
            assert_eq!(delimiter_row(line), None, "{line}");
        }
    }
}
