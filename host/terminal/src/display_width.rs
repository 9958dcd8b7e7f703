//! Columns that a text takes at a terminal.
//!
//! Terminals disagree: some add up the widths of characters, some take a cluster such as an emoji of several characters as
//! one. The larger of the two is used here, so that a line that is cut to the width of a terminal fits into each of them.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns the columns of a character, 0 for one that combines with the character before it.
pub fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Returns the columns of a grapheme cluster.
pub fn grapheme_width(grapheme: &str) -> usize {
    if grapheme.len() == 1 {
        return 1;
    }
    grapheme.chars().map(char_width).sum::<usize>().max(grapheme.width())
}

/// Returns the columns of a safe line.
pub fn display_width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.graphemes(true).map(grapheme_width).sum()
}

/// Returns the bytes of the longest start of a text that takes at most `columns`, and the columns that it takes.
pub fn prefix_within(text: &str, columns: usize) -> (usize, usize) {
    if text.is_ascii() {
        let bytes = text.len().min(columns);
        return (bytes, bytes);
    }
    let (mut bytes, mut used) = (0, 0);
    for grapheme in text.graphemes(true) {
        let width = grapheme_width(grapheme);
        if used + width > columns {
            break;
        }
        (bytes, used) = (bytes + grapheme.len(), used + width);
    }
    (bytes, used)
}

/// Breaks characters of these widths into rows of so many columns, as a terminal does. Returns the row of the last one, counted
/// from 0, and the columns that are taken in it.
pub fn end_of_broken_line(widths: impl Iterator<Item = usize>, columns: usize) -> (usize, usize) {
    widths.fold((0, 0), |(row, used), width| match used > 0 && used + width > columns {
        true => (row + 1, width),
        false => (row, used + width),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_is_the_larger_of_both_counts() {
        for (text, columns) in [
            ("plain", 5),
            ("日本", 4),
            ("e\u{301}", 1),
            // One column without the selector, two with it.
            ("\u{2764}\u{fe0f}", 2),
            // Terminals that do not know the sequence show two emoji.
            ("\u{1f469}\u{200d}\u{1f4bb}", 4),
        ] {
            assert_eq!(display_width(text), columns, "{text}");
        }
    }

    #[test]
    fn wide_character_begins_the_next_row_whole() {
        for (widths, columns, end) in [
            (&[][..], 3, (0, 0)),
            (&[1, 1, 1], 3, (0, 3)),
            (&[1, 1, 1, 1], 3, (1, 1)),
            (&[2, 2, 2], 3, (2, 2)),
            (&[2, 2], 1, (1, 2)),
        ] {
            assert_eq!(end_of_broken_line(widths.iter().copied(), columns), end, "{widths:?}");
        }
    }

    #[test]
    fn prefix_ends_before_a_cluster_that_is_too_wide() {
        assert_eq!(prefix_within("ab", 1), (1, 1));
        assert_eq!(prefix_within("a日本", 4), (4, 3));
        assert_eq!(prefix_within("e\u{301}e\u{301}", 1), (3, 1));
        assert_eq!(prefix_within("日", 1), (0, 0));
        assert_eq!(prefix_within("日", 0), (0, 0));
    }
}
