//! Formatting of JSON by whitespace only. Order, numbers and escapes stay as written, which no parser preserves.

use serde::{Deserialize, de::IgnoredAny};

/// The placement of whitespace in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JsonLayout {
    /// One line for each part, indented by two spaces.
    Pretty,
    /// No whitespace.
    Compact,
}

/// Indents a JSON value; returns none if the text is not JSON.
pub fn pretty(json: &str) -> Option<String> {
    format(json, JsonLayout::Pretty)
}

/// Formats a JSON value; returns none if the text is not JSON. JSON that is nested deeper than the parser allows (127)
/// counts as invalid.
pub fn format(json: &str, layout: JsonLayout) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(json).ok()?;
    let mut out = String::with_capacity(json.len());
    let mut depth = 0;
    let mut chars = json.chars().filter(not_white()).peekable();
    let mut inside = Inside::default();
    while let Some(c) = chars.next() {
        let is_text = inside.step(c);
        let empty = matches!((c, chars.peek()), ('{', Some('}')) | ('[', Some(']')));
        let closes = matches!(c, '}' | ']') && !is_text;
        if closes && !out.ends_with(['{', '[']) {
            depth -= 1;
            new_line(&mut out, layout, depth);
        } else if closes {
            depth -= 1;
        }
        out.push(c);
        match c {
            _ if is_text => {}
            '{' | '[' => {
                depth += 1;
                if !empty {
                    new_line(&mut out, layout, depth);
                }
            }
            ',' => new_line(&mut out, layout, depth),
            ':' if layout == JsonLayout::Pretty => out.push(' '),
            _ => {}
        }
    }
    Some(out)
}

fn new_line(out: &mut String, layout: JsonLayout, depth: usize) {
    if layout == JsonLayout::Pretty {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str("  "));
    }
}

/// Returns a filter that removes whitespace between the parts of a value.
fn not_white() -> impl FnMut(&char) -> bool {
    let mut inside = Inside::default();
    move |c| inside.step(*c) || !c.is_ascii_whitespace()
}

/// A scanner that tells which characters belong to strings.
#[derive(Default)]
struct Inside {
    is_text: bool,
    is_escaped: bool,
}

impl Inside {
    /// Processes the next character. Returns `true` if it belongs to a string or is one of its quotes.
    fn step(&mut self, c: char) -> bool {
        let was_text = self.is_text;
        match c {
            _ if self.is_escaped => self.is_escaped = false,
            '\\' => self.is_escaped = was_text,
            '"' => self.is_text = !was_text,
            _ => {}
        }
        was_text || self.is_text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_formatting_changes_only_whitespace() {
        for (json, pretty, compact) in [
            ("1", "1", "1"),
            (" \"a b\" ", "\"a b\"", "\"a b\""),
            ("[]", "[]", "[]"),
            ("[ [ ] , { } ]", "[\n  [],\n  {}\n]", "[[],{}]"),
            (
                r#"{"z": 1e400, "a": {"b": [1, 2]}, "a": 0.10}"#,
                "{\n  \"z\": 1e400,\n  \"a\": {\n    \"b\": [\n      1,\n      2\n    ]\n  },\n  \"a\": 0.10\n}",
                r#"{"z":1e400,"a":{"b":[1,2]},"a":0.10}"#,
            ),
            (r#"["{ , : } \" [", "\\"]"#, "[\n  \"{ , : } \\\" [\",\n  \"\\\\\"\n]", r#"["{ , : } \" [","\\"]"#),
            (r#"["["]"#, "[\n  \"[\"\n]", r#"["["]"#),
        ] {
            assert_eq!(format(json, JsonLayout::Pretty).as_deref(), Some(pretty), "{json}");
            assert_eq!(format(json, JsonLayout::Compact).as_deref(), Some(compact), "{json}");
            assert_eq!(format(pretty, JsonLayout::Compact).as_deref(), Some(compact), "{json}");
        }
        for text in ["", "a", "{", "[1,]", "1 2"] {
            assert_eq!(format(text, JsonLayout::Pretty), None, "{text}");
        }
    }
}
