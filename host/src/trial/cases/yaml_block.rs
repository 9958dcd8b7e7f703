//! Values as YAML in block style, as a person would write them.

use serde_json::{Map, Value};

use crate::error::acts_on_terminal;

/// Returns the lines of a mapping, indented by `indent` spaces.
pub(super) fn yaml_block(entries: &Map<String, Value>, indent: usize) -> String {
    let mut text = String::new();
    for (key, value) in entries {
        text.push_str(&format!("{}{}:", " ".repeat(indent), scalar_text(key)));
        add_value(&mut text, value, indent + 2);
    }
    text
}

/// Adds a value after its key or the dash of its entry. Its further lines are indented by `indent`.
fn add_value(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            text.push('\n');
            text.push_str(&yaml_block(entries, indent));
        }
        Value::Array(entries) if !entries.is_empty() => {
            text.push('\n');
            entries.iter().for_each(|entry| add_entry(text, entry, indent));
        }
        Value::String(words) if is_block(words) => {
            text.push_str(if words.ends_with('\n') { " |\n" } else { " |-\n" });
            for line in words.lines() {
                let margin = if line.is_empty() { 0 } else { indent };
                text.push_str(&format!("{}{line}\n", " ".repeat(margin)));
            }
        }
        Value::String(words) => text.push_str(&format!(" {}\n", scalar_text(words))),
        value => text.push_str(&format!(" {value}\n")),
    }
}

fn add_entry(text: &mut String, entry: &Value, indent: usize) {
    let dash = format!("{}-", " ".repeat(indent));
    match entry {
        // The first key stands behind the dash.
        Value::Object(entries) if !entries.is_empty() => {
            let block = yaml_block(entries, indent + 2);
            text.push_str(&format!("{dash} {}", &block[indent + 2..]));
        }
        entry => {
            text.push_str(&dash);
            add_value(text, entry, indent + 2);
        }
    }
}

/// Returns `true` if a text of several lines can be written as a block.
fn is_block(words: &str) -> bool {
    let has_lines = words.trim_end_matches('\n').contains('\n') && !words.ends_with("\n\n");
    has_lines && !words.starts_with([' ', '\n', '\t']) && !words.contains(|c: char| is_escaped(c) && c != '\n')
}

/// Returns a text on one line, with quotes if it needs them.
fn scalar_text(words: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let is_plain = words.starts_with(|c: char| c.is_ascii_alphabetic())
        && words.chars().all(is_word)
        && !OTHER_TYPES.contains(&words.to_ascii_lowercase().as_str());
    if is_plain {
        return words.to_owned();
    }
    let quoted = Value::from(words).to_string();
    quoted.chars().map(|c| if is_escaped(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }).collect()
}

/// Returns `true` for a character that JSON does not escape, and that YAML forbids or people cannot see.
fn is_escaped(c: char) -> bool {
    acts_on_terminal(c) || c == '\u{feff}'
}

/// Words that some version of YAML does not take for a text.
const OTHER_TYPES: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::parse_yaml;

    #[test]
    fn block_has_one_line_for_each_plain_value() {
        let Value::Object(entries) = json!({
            "decision": "edits",
            "log": [{"level": "warn", "message": "a: b"}, 1, []],
            "result": "one\n\n  two",
        }) else {
            panic!("it is a mapping")
        };
        let expected = "  decision: edits
  log:
    - level: warn
      message: \"a: b\"
    - 1
    - []
  result: |-
    one

      two
";
        assert_eq!(yaml_block(&entries, 2), expected);
    }

    #[test]
    fn written_values_are_read_back() {
        let texts = [
            "",
            " ",
            "a",
            "true",
            "No",
            "3",
            "1.5",
            "~",
            "a b",
            "a: b",
            "# a",
            "- a",
            "'",
            "\"",
            "\\",
            "a\nb",
            "a\nb\n",
            "a\n\n",
            "\na",
            " a\nb",
            "a\n b\n",
            "a\n\n\nb",
            "\t",
            "a\tb",
            "a\r\nb",
            "\u{1b}[2J",
            "\u{85}",
            "\u{2028}x\ny",
            "ü\n日本",
            "a\n# b",
            "- a\n- b",
            "\u{feff}",
            "---\na",
            "a\n...",
        ];
        let texts: Map<String, Value> =
            texts.iter().enumerate().map(|(at, text)| (format!("k{at}"), json!([text, {"deep": [[text]]}]))).collect();
        let keys = json!({"a b": 1, "null": null, "": {}, "é": -1.5, "list": [[1, [2]], {"a": [{}]}]});
        for value in [Value::Object(texts), keys] {
            let Value::Object(entries) = &value else { panic!("{value}") };
            let text = format!("expect:\n{}", yaml_block(entries, 2));
            let read: Value = parse_yaml(&text, "the value", "f").unwrap_or_else(|report| panic!("{report}\n{text}"));
            assert_eq!(read["expect"], value, "{text}");
        }
    }
}
