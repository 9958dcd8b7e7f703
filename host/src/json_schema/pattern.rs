//! Regular expressions that every engine reads: those of vendors are of several languages, and one that an engine does not
//! read has a vendor refuse the whole request.

use regex_syntax::ast::parse::Parser;

/// Returns `true` if JavaScript, Python and Rust read it alike, but for what looks around and refers back, which Rust has not.
pub fn is_portable(pattern: &str) -> bool {
    // Parsed and not compiled: a schema has room for thousands of patterns, each of which takes a millisecond to compile.
    translated(pattern).is_some_and(|translated| Parser::new().parse(&translated).is_ok())
}

/// The pattern for Rust's engine: groups that look around become plain ones. `None` where it holds what only some know.
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
                    // The character, or what an earlier group has matched.
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
