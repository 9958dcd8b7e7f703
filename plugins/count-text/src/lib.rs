//! Tools that measure a text. They see nothing but their arguments, and the same text always gives the same numbers.
//!
//! Lines are what `str::lines` calls lines: they end with `\n` or `\r\n`, which do not count as part of them, and an
//! end of line at the end of the text begins no further one. Characters are Unicode scalar values. Words are what
//! white space separates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints};

shelly_plugin::export!(tools: [CountText, LongestLines]);

/// More lines than this are not asked for by mistake.
const MAX_LINES: u32 = 100;

/// A line is shown up to so many characters.
const MAX_SHOWN: usize = 500;

struct CountText;

#[derive(Deserialize, JsonSchema)]
struct CountTextArgs {
    /// The text to count in.
    text: String,
}

#[derive(Serialize)]
struct Counts {
    words: usize,
    lines: usize,
    characters: usize,
    bytes: usize,
}

impl Tool for CountText {
    const NAME: &'static str = "count_text";
    const DESCRIPTION: &'static str =
        "Counts the words, lines, characters and bytes of a text exactly. Pass the whole text, not a file name.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = CountTextArgs;

    fn call(args: CountTextArgs, _call: &Call) -> Result<Reply, Error> {
        Reply::json(&count(&args.text))
    }
}

fn count(text: &str) -> Counts {
    Counts {
        words: text.split_whitespace().count(),
        lines: text.lines().count(),
        characters: text.chars().count(),
        bytes: text.len(),
    }
}

struct LongestLines;

#[derive(Deserialize, JsonSchema)]
struct LongestLinesArgs {
    /// The text to look in.
    text: String,
    /// How many lines, 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    count: u32,
}

#[derive(Serialize)]
struct Longest<'a> {
    lines: Vec<Line<'a>>,
}

#[derive(Serialize, Debug, PartialEq)]
struct Line<'a> {
    /// From 1.
    number: usize,
    characters: usize,
    /// Its beginning, if it is very long.
    text: &'a str,
}

impl Tool for LongestLines {
    const NAME: &'static str = "longest_lines";
    const DESCRIPTION: &'static str = "Finds the longest lines of a text, the longest first, with their line numbers \
        and their lengths in characters. Pass the whole text, not a file name.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = LongestLinesArgs;

    fn call(args: LongestLinesArgs, _call: &Call) -> Result<Reply, Error> {
        if !(1..=MAX_LINES).contains(&args.count) {
            return Err(Error::Invalid(format!("`count` is {}; it must be 1 to {MAX_LINES}", args.count)));
        }
        let lines = longest(&args.text, args.count as usize);
        Reply::json(&Longest { lines })
    }
}

/// The `count` longest lines; of equally long ones the earlier one first.
fn longest(text: &str, count: usize) -> Vec<Line<'_>> {
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
    fn longest_lines_come_first_and_ties_in_their_order() {
        let found = longest("aa\nbbbb\r\n\nöö\ncccc\n", 4);
        let found: Vec<_> = found.iter().map(|line| (line.number, line.characters, line.text)).collect();
        assert_eq!(found, [(2, 4, "bbbb"), (5, 4, "cccc"), (1, 2, "aa"), (4, 2, "öö")]);
        assert_eq!(longest("a\nb", 9).len(), 2);
        assert!(longest("", 3).is_empty());
    }

    #[test]
    fn a_very_long_line_is_measured_whole_and_shown_in_part() {
        let text = "ä".repeat(2 * MAX_SHOWN);
        let line = &longest(&text, 1)[0];
        assert_eq!((line.characters, line.text.chars().count()), (2 * MAX_SHOWN, MAX_SHOWN));
    }

    #[test]
    fn a_senseless_count_is_refused() {
        for count in [0, 101] {
            let args = LongestLinesArgs { text: "a".into(), count };
            let error = LongestLines::call(args, &Call::new("1")).unwrap_err();
            assert_eq!(error, Error::Invalid(format!("`count` is {count}; it must be 1 to 100")));
        }
    }
}
