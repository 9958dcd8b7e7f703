//! Measuring of a text: its words, lines, characters and bytes, and its longest lines.
//!
//! Lines are those of `str::lines`: they end with `\n` or `\r\n`, which is not part of the line, and a line end at the
//! end of the text begins no further line. Characters are Unicode scalar values. Words are separated by whitespace.

use serde::Serialize;

/// The maximum number of characters of a line that are shown.
const MAX_SHOWN: usize = 500;

/// The size of a text.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Counts {
    /// The number of words, which are separated by whitespace.
    pub words: usize,
    /// The number of lines. A line end at the end of the text begins no further line.
    pub lines: usize,
    /// The number of Unicode scalar values.
    pub characters: usize,
    /// The number of bytes in UTF-8.
    pub bytes: usize,
}

/// A line of a text.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The number of the line, from 1.
    pub number: usize,
    /// The length of the line, without its end.
    pub characters: usize,
    /// The line, or its beginning if it is very long.
    pub text: &'a str,
}

/// Counts the words, lines, characters and bytes of a text.
pub fn count(text: &str) -> Counts {
    Counts {
        words: text.split_whitespace().count(),
        lines: text.lines().count(),
        characters: text.chars().count(),
        bytes: text.len(),
    }
}

/// Returns the `count` longest lines; of equally long ones the earlier one first.
pub fn longest(text: &str, count: usize) -> Vec<Line<'_>> {
    let mut lines: Vec<Line> = text
        .lines()
        .enumerate()
        .map(|(index, text)| Line { number: index + 1, characters: text.chars().count(), text: beginning(text) })
        .collect();
    // The sort is stable, so equally long lines stay in their order.
    lines.sort_by_key(|line| std::cmp::Reverse(line.characters));
    lines.truncate(count);
    lines
}

fn beginning(text: &str) -> &str {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let cases = [
            ("", [0, 0, 0, 0]),
            ("one", [1, 1, 3, 3]),
            ("one two\n", [2, 1, 8, 8]),
            ("a\r\nb\r\n", [2, 2, 6, 6]),
            ("\n\n", [0, 2, 2, 2]),
            ("  schöne\tWörter \u{2003}ü", [3, 1, 18, 23]),
        ];
        for (text, expected) in cases {
            let counts = count(text);
            assert_eq!([counts.words, counts.lines, counts.characters, counts.bytes], expected, "for {text:?}");
        }
    }

    #[test]
    fn longest_lines_are_sorted_stably_by_length() {
        let found = longest("aa\nbbbb\r\n\nöö\ncccc\n", 4);
        let found: Vec<_> = found.iter().map(|line| (line.number, line.characters, line.text)).collect();
        assert_eq!(found, [(2, 4, "bbbb"), (5, 4, "cccc"), (1, 2, "aa"), (4, 2, "öö")]);
        assert_eq!(longest("a\nb", 9).len(), 2);
        assert!(longest("", 3).is_empty());
    }

    #[test]
    fn very_long_line_is_measured_whole_and_shown_cut() {
        let text = "ä".repeat(2 * MAX_SHOWN);
        let line = &longest(&text, 1)[0];
        assert_eq!((line.characters, line.text.chars().count()), (2 * MAX_SHOWN, MAX_SHOWN));
    }
}
