//! Makes text of others fit for a terminal, and JSON for a line.

use std::path::Path;

use serde::Serialize;

use crate::{
    cli::secrets::{json_without_secrets, without_secrets},
    error::acts_on_terminal,
    files,
};

pub const BOLD: &str = "\x1b[1m";
pub const DIM: &str = "\x1b[2m";
pub const RED: &str = "\x1b[1;31m";
pub const GREEN: &str = "\x1b[32m";
pub const YELLOW: &str = "\x1b[33m";
pub const PLAIN: &str = "\x1b[0m";
/// All of these codes.
const COLOURS: [&str; 6] = [BOLD, DIM, RED, GREEN, YELLOW, PLAIN];

/// Removes the colours that the host adds to a line.
pub fn without_colours(line: &str) -> String {
    COLOURS.iter().fold(line.to_owned(), |line, colour| line.replace(colour, ""))
}

/// Returns a line of JSON without credentials and with characters escaped that act on a terminal.
pub fn json_line(value: &impl Serialize) -> String {
    safe_json(serde_json::to_string(value).unwrap_or_default())
}

/// Returns JSON as [`json_line`] does, but indented over several lines.
pub fn indented_json(value: &impl Serialize) -> String {
    safe_json(serde_json::to_string_pretty(value).unwrap_or_default())
}

/// Returns a line that is JSON already, or a part of it, as [`json_line`] does.
pub fn json_safe_line(json: String) -> String {
    safe_json(json)
}

/// Removes credentials from JSON, and escapes as JSON does what acts on a terminal: the text stays valid JSON.
fn safe_json(json: String) -> String {
    // Line breaks within strings are escaped already.
    let acts = |c: char| acts_on_terminal(c) && c != '\n';
    replaced(json_without_secrets(json), acts, |c| format!("\\u{:04x}", u32::from(c)))
}

/// Removes credentials from a text of many lines, and escapes all other characters that act on a terminal.
pub fn escaped(text: &str) -> String {
    let text = without_secrets(text);
    let acts = |c: char| acts_on_terminal(c) && c != '\n' && c != '\t';
    replaced(text, acts, |c| c.escape_unicode().to_string())
}

/// Replaces each character that is `unsafe_to_show` by an escape.
fn replaced(text: String, unsafe_to_show: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> String {
    if !text.contains(&unsafe_to_show) {
        return text;
    }
    text.chars().map(|c| if unsafe_to_show(c) { escape(c) } else { c.to_string() }).collect()
}

/// Formats a name given by others as a part of a line: it cannot begin a line of its own.
pub fn name(text: &str) -> String {
    one_line(text, 500)
}

/// Formats a path as a part of a line: `.shelly/local`, not `./.shelly/local/.`.
pub fn path_name(path: &Path) -> String {
    name(&files::without_dots(path).display().to_string())
}

/// Returns the text on one line of at most `chars` characters.
pub fn one_line(text: &str, chars: usize) -> String {
    let line: String = escaped(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Indents the later lines of a text.
pub fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n         ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        for (text, shown) in [
            ("plain\n\ttext é 日", "plain\n\ttext é 日"),
            ("\x1b]52;c;aGk=\x07", "\\u{1b}]52;c;aGk=\\u{7}"),
            ("a\rb\u{9b}31m", "a\\u{d}b\\u{9b}31m"),
            ("user\u{202e}txt.exe", "user\\u{202e}txt.exe"),
            ("\u{2066}x\u{2069}", "\\u{2066}x\\u{2069}"),
        ] {
            assert_eq!(escaped(text), shown);
        }
        assert_eq!(one_line("a\n  b \x1b[2J", 9), "a b \\u{1b…");
        assert_eq!(name("x\nerror: forged"), "x error: forged");
    }

    #[test]
    fn json_stays_valid_when_it_is_made_safe() {
        let value = json!({"a": "\u{9b}31m\u{7f}\n", "b": ["\u{202e}é"]});
        for (shown, expected) in [
            (json_line(&value), r#"{"a":"\u009b31m\u007f\n","b":["\u202eé"]}"#),
            (indented_json(&value), "{\n  \"a\": \"\\u009b31m\\u007f\\n\",\n  \"b\": [\n    \"\\u202eé\"\n  ]\n}"),
        ] {
            assert_eq!(shown, expected);
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        }
    }
}
