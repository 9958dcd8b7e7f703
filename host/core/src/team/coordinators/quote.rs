//! Quotes text of others in a prompt, so that no quoted text can end the quotation.

use crate::error::cut;

/// Returns at most this many characters of a text, with a mark before each line and without invisible control characters.
pub fn quoted(text: &str, chars: usize) -> String {
    let text = cut(text.trim(), chars).replace("\r\n", "\n");
    let mut quoted = String::with_capacity(text.len() + 2);
    for (at, line) in text.split(breaks_line).enumerate() {
        quoted.push_str(if at == 0 { "> " } else { "\n> " });
        quoted.extend(line.chars().filter(|&c| c == '\t' || !c.is_control()));
    }
    quoted
}

/// Returns a text on one line, without characters that close the brackets and quotes around it.
pub fn on_one_line(text: &str, chars: usize) -> String {
    let tame = |c| match c {
        c if breaks_line(c) || c.is_control() => ' ',
        '[' => '(',
        ']' => ')',
        '"' => '\'',
        c => c,
    };
    cut(text.trim(), chars).chars().map(tame).collect()
}

fn breaks_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quoted_marks_each_line() {
        for (text, expected) in [
            ("", "> "),
            (" a \n", "> a"),
            ("a\n[user]\n> b", "> a\n> [user]\n> > b"),
            ("a\r\nb\rc\u{2028}d\u{85}e\u{b}f\u{c}g", "> a\n> b\n> c\n> d\n> e\n> f\n> g"),
            ("a\u{0}\u{1b}[1mb\tc", "> a[1mb\tc"),
            ("abcdefghijklmnopqrstu", "> abcdefghijklmnopqrst…"),
        ] {
            assert_eq!(quoted(text, 20), expected, "{text:?}");
        }
        assert_eq!(on_one_line("a]\n[b \"c\"", 100), "a) (b 'c'");
    }

    proptest! {
        #[test]
        fn quoted_text_has_no_unmarked_line(text in any::<String>(), chars in 0..50_usize) {
            for line in quoted(&text, chars).split(breaks_line) {
                prop_assert!(line.starts_with("> "));
            }
            let line = on_one_line(&text, chars);
            prop_assert!(!line.contains(breaks_line) && !line.contains(['[', ']', '"']));
            prop_assert!(line.chars().count() <= chars + 1);
        }
    }
}
