use shelly_core::error::{cut, legible};

/// Returns a text of the document for models and people: at most `chars` characters, with its line breaks, and with all
/// other control characters and invisible characters escaped.
pub(crate) fn shown_text(text: &str, chars: usize) -> String {
    let text = text.replace("\r\n", "\n").replace('\t', " ");
    let lines: Vec<_> = text.trim().split('\n').map(|line| legible(line.trim_end())).collect();
    cut(&lines.join("\n"), chars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded_and_legible() {
        for (text, shown) in [
            ("  Finds a pet.\r\n\r\n\tBy its id. \n", "Finds a pet.\n\n By its id."),
            ("a\u{1b}[2Jb\u{202e}c\u{200b}", "a\\u{1b}[2Jb\\u{202e}c\\u{200b}"),
            ("", ""),
        ] {
            assert_eq!(shown_text(text, 100), shown);
        }
        assert_eq!(shown_text("abcdef", 3), "abc…");
    }
}
