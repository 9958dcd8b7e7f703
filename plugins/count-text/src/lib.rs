//! Tools that measure a text. They depend only on their arguments, and equal texts give equal numbers;
//! [`guest_kit::measure`] defines what is counted. For a file, use `read_file` of `read-files` with `measure`: a model
//! that passes a text writes all of it again.

use guest_kit::measure::{Line, count, longest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints};

shelly_plugin::export!(tools: [CountText, LongestLines]);

/// The maximum number of lines. A larger number is more likely a mistake.
const MAX_LINES: u32 = 100;

struct CountText;

#[derive(Deserialize, JsonSchema)]
struct CountTextArgs {
    /// The text to count in.
    text: String,
}

impl Tool for CountText {
    const NAME: &'static str = "count_text";
    const DESCRIPTION: &'static str = "Counts the words, lines, characters and bytes of a text exactly. Pass the \
                                       whole text, not a file name. It costs its tokens once more, so measure a text \
                                       in a file with a file tool instead.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = CountTextArgs;

    fn call(args: CountTextArgs, _call: &Call) -> Result<Reply, Error> {
        Reply::json(&count(&args.text))
    }
}

struct LongestLines;

#[derive(Deserialize, JsonSchema)]
struct LongestLinesArgs {
    /// The text to look in.
    text: String,
    /// The number of lines, 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    count: u32,
}

#[derive(Serialize)]
struct Longest<'a> {
    lines: Vec<Line<'a>>,
}

impl Tool for LongestLines {
    const NAME: &'static str = "longest_lines";
    const DESCRIPTION: &'static str = "Finds the longest lines of a text, the longest first, with their line numbers \
                                       and their lengths in characters. Pass the whole text, not a file name. It \
                                       costs its tokens once more, so measure a text in a file with a file tool \
                                       instead.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = LongestLinesArgs;

    fn call(args: LongestLinesArgs, _call: &Call) -> Result<Reply, Error> {
        if !(1..=MAX_LINES).contains(&args.count) {
            return Err(Error::Invalid(format!("`count` is {}; use 1 to {MAX_LINES}", args.count)));
        }
        let lines = longest(&args.text, args.count as usize);
        Reply::json(&Longest { lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_lines_count_out_of_range_is_refused() {
        for count in [0, 101] {
            let args = LongestLinesArgs { text: "a".into(), count };
            let error = LongestLines::call(args, &Call::new("1")).unwrap_err();
            assert_eq!(error, Error::Invalid(format!("`count` is {count}; use 1 to 100")));
        }
    }
}
