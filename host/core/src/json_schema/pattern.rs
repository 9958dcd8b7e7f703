//! Regular expressions that every engine accepts. Vendors use several regex dialects, and refuse the whole request for a
//! pattern that their engine does not accept.

use regex_syntax::ast::parse::Parser;

/// Returns `true` if JavaScript, Python and Rust parse the pattern alike, except for lookaround and backreferences, which
/// Rust lacks.
pub fn is_portable(pattern: &str) -> bool {
    // Parsed and not compiled: a schema may contain thousands of patterns, each of which takes a millisecond to compile.
    translated(pattern).is_some_and(|translated| Parser::new().parse(&translated).is_ok())
}

/// Translates the pattern for Rust's engine, with lookaround as plain groups. Returns `None` if it contains syntax that only
/// some engines know.
fn translated(pattern: &str) -> Option<String> {
    let (mut rest, mut to, mut in_class) = (pattern, String::with_capacity(pattern.len()), false);
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        match c {
            '\\' => {
                let escaped = rest[1..].chars().next()?;
                length = 1 + escaped.len_utf8();
                let digits = |count: usize| {
                    let digits = rest.get(2..2 + count)?;
                    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(2 + count)
                };
                match escaped {
                    'd' | 'D' | 'w' | 'W' | 's' | 'S' | 't' | 'n' | 'r' | 'f' | 'v' => to.push_str(&rest[..length]),
                    'b' | 'B' if !in_class => to.push_str(&rest[..length]),
                    // The character, or a backreference.
                    '0'..='9' => to.push('x'),
                    'x' | 'u' => {
                        length = digits(if escaped == 'x' { 2 } else { 4 })?;
                        to.push('x');
                    }
                    c if c.is_ascii_punctuation() => to.extend(['\\', c]),
                    _ => return None,
                }
            }
            '(' if !in_class && rest.starts_with("(?") => {
                let plain = ["(?:", "(?=", "(?!", "(?<=", "(?<!"].into_iter().find(|group| rest.starts_with(group))?;
                length = plain.len();
                to.push_str("(?:");
            }
            '[' if in_class => to.push_str("\\["),
            '&' | '~' if in_class => to.extend(['\\', c]),
            '[' => {
                in_class = true;
                to.push('[');
            }
            ']' if in_class => {
                in_class = false;
                to.push(']');
            }
            c => to.push(c),
        }
        rest = &rest[length..];
    }
    Some(to)
}
