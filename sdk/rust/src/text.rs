//! Shortening of texts, never inside a character.

/// Returns the first `most` characters.
pub fn head(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// Returns the last `most` characters.
pub fn tail(text: &str, most: usize) -> &str {
    match most.checked_sub(1) {
        None => "",
        Some(before) => text.char_indices().rev().nth(before).map_or(text, |(start, _)| &text[start..]),
    }
}

/// Returns the first `most` characters, with `…` in place of the rest if there is one.
pub fn short(text: &str, most: usize) -> String {
    let head = head(text, most);
    if head.len() == text.len() { text.to_owned() } else { format!("{head}…") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cuts_respect_character_boundaries() {
        for (text, most, first, last, shown) in [
            ("", 3, "", "", ""),
            ("äöü", 0, "", "", "…"),
            ("äöü", 2, "äö", "öü", "äö…"),
            ("äöü", 3, "äöü", "äöü", "äöü"),
            ("äöü", 9, "äöü", "äöü", "äöü"),
        ] {
            assert_eq!(
                (head(text, most), tail(text, most), &*short(text, most)),
                (first, last, shown),
                "{text} {most}"
            );
        }
    }
}
