//! Shortening of tool results, for effects that edit them.

use crate::{
    text,
    types::{Content, Part, ToolResult},
};

/// The minimum number of characters that a cut must save, so that the note about the cut does not outweigh it.
pub const LEAST_SAVED: usize = 100;

/// Returns the tool results in a message.
pub fn results(message: &crate::Message) -> impl Iterator<Item = &ToolResult> {
    message.parts.iter().filter_map(|part| if let Part::ToolResult(result) = part { Some(result) } else { None })
}

/// Returns the number of characters of all texts and JSON in the content.
pub fn characters(content: &[Content]) -> usize {
    let texts = content.iter().map(|piece| match piece {
        Content::Text(text) | Content::Json(text) => text.chars().count(),
        _ => 0,
    });
    texts.sum()
}

/// Cuts the content to the first `most` characters of its texts and JSON, followed by a line from `mark`, which receives
/// the number of characters that were cut. All other content stays. Returns `None` if the cut would save less than
/// [`LEAST_SAVED`], so that content is not cut twice.
pub fn cut(content: &[Content], most: usize, mark: impl FnOnce(usize) -> String) -> Option<Vec<Content>> {
    let total = characters(content);
    let mark = format!("\n{}", mark(total.saturating_sub(most)));
    if total < most.saturating_add(mark.chars().count()).saturating_add(LEAST_SAVED) {
        return None;
    }
    let (mut left, mut new) = (most, Vec::with_capacity(content.len()));
    let mut mark = Some(mark);
    for piece in content {
        let (Content::Text(whole) | Content::Json(whole)) = piece else {
            new.push(piece.clone());
            continue;
        };
        let count = whole.chars().count();
        if count <= left {
            left -= count;
            new.push(piece.clone());
        } else if let Some(mark) = mark.take() {
            // JSON that is cut becomes text, because it is not valid JSON any more.
            new.push(Content::Text(text::head(whole, left).to_owned() + &mark));
            left = 0;
        }
    }
    Some(new)
}

/// Formats a number with thousands separators: `12,345`.
pub fn number(n: usize) -> String {
    let digits = n.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Quotes a text of a tool or a model: in one line, shortened, in backticks.
pub fn quoted(said: &str, most: usize) -> String {
    // Four times as many characters are considered, because whitespace collapses.
    let line = text::head(said, most.saturating_mul(4)).split_whitespace().collect::<Vec<_>>().join(" ");
    let is_all = line.chars().count() <= most && said.chars().count() <= most.saturating_mul(4);
    let shown = text::head(&line, most).replace('`', "'");
    format!("`{shown}{}`", if is_all { "" } else { "…" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(cut: usize) -> String {
        format!("[{cut} cut]")
    }

    #[test]
    fn long_result_is_cut_once_at_a_character() {
        let long = "ä".repeat(1_000);
        let new = cut(&[Content::Text(long.clone())], 500, mark).unwrap();
        assert_eq!(new, [Content::Text("ä".repeat(500) + "\n[500 cut]")]);
        assert_eq!(cut(&new, 500, mark), None);
        assert_eq!(cut(&[Content::Text("ä".repeat(609))], 500, mark), None, "that saves too little");
        assert_eq!(cut(&[], 500, mark), None);
        assert!(cut(&[Content::Text(long)], 0, mark).is_some());
    }

    #[test]
    fn result_texts_are_cut_together_and_other_content_is_kept() {
        let picture = Content::Other(crate::types::Opaque { kind: "x.y".into(), json: "1".into() });
        let json = Content::Json(format!("\"{}\"", "x".repeat(898)));
        let content = ["a".repeat(300).into(), json, picture.clone(), "b".repeat(300).into()];
        let new = cut(&content, 500, mark).unwrap();
        let expected = format!("\"{}\n[1000 cut]", "x".repeat(199));
        assert_eq!(new, ["a".repeat(300).into(), expected.into(), picture]);
        assert_eq!(characters(&content), 1_500);
    }

    #[test]
    fn numbers_and_quotes_are_formatted_for_display() {
        for (n, shown) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")] {
            assert_eq!(number(n), shown);
        }
        for (said, most, shown) in [
            ("", 5, "``"),
            ("a\n\n b", 5, "`a b`"),
            ("a`b", 5, "`a'b`"),
            ("abcdef", 5, "`abcde…`"),
            (&" ".repeat(50), 5, "`…`"),
        ] {
            assert_eq!(quoted(said, most), shown);
        }
    }
}
