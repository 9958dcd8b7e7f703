//! Indentation of JSON that keeps the order of keys and every digit of a number.

use serde::de::IgnoredAny;

/// The number of spaces per level.
const INDENT: usize = 2;

/// Indents JSON; returns none if it is not valid JSON. JSON that is nested deeper than the parser allows (127) counts as
/// invalid.
pub(crate) fn pretty(text: &str) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let mut shown = String::with_capacity(text.len() * 2);
    let (mut depth, mut is_string, mut is_escaped) = (0, false, false);
    let mut characters = text.chars().filter(|c| !c.is_ascii_control() || c.is_ascii_whitespace()).peekable();
    while let Some(c) = characters.next() {
        if is_string {
            shown.push(c);
            is_string = is_escaped || c != '"';
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        match c {
            '"' => {
                is_string = true;
                shown.push(c);
            }
            '{' | '[' => {
                shown.push(c);
                while characters.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                match characters.next_if(|c| matches!(c, '}' | ']')) {
                    Some(end) => shown.push(end),
                    None => {
                        depth += 1;
                        line(&mut shown, depth);
                    }
                }
            }
            '}' | ']' => {
                depth -= 1;
                line(&mut shown, depth);
                shown.push(c);
            }
            ',' => {
                shown.push(c);
                line(&mut shown, depth);
            }
            ':' => shown.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => shown.push(c),
        }
    }
    Some(shown)
}

fn line(shown: &mut String, depth: usize) {
    shown.push('\n');
    shown.extend(std::iter::repeat_n(' ', depth * INDENT));
}
