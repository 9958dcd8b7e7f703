//! Pieces of Markdown.

/// Returns a table; columns are as wide as they are.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        let cells: Vec<_> = row.iter().map(|text| cell(text)).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// Returns the text as the cell of a table: on one line, and without a bar that would end the cell.
///
/// # Panics
///
/// If the text has a block of code, which no cell can show.
fn cell(text: &str) -> String {
    assert!(!text.contains("```"), "a cell of a table has no block of code: {text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Returns a block of code.
pub fn code_block(language: &str, code: &str) -> String {
    format!("```{language}\n{}\n```\n", code.trim_end())
}

/// Returns the text with a full stop, if it ends without a mark.
pub fn sentence(text: &str) -> String {
    let text = text.trim();
    match text.chars().last() {
        None | Some('.' | ':' | '!' | '?') => text.to_owned(),
        Some(_) => format!("{text}."),
    }
}

/// Returns the first sentence of a text, on one line.
pub fn first_sentence(text: &str) -> String {
    let paragraph = text.trim().split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    sentence(&line[..end])
}

/// Returns the text with `change` made to each piece that is no code block: the text between code spans, and the spans without
/// their marks, for which the flag is `true`.
pub fn map_prose(text: &str, mut change: impl FnMut(&str, bool) -> String) -> String {
    let mut mapped = String::new();
    for (at, part) in text.split("```").enumerate() {
        if at % 2 == 1 {
            mapped.push_str(&format!("```{part}```"));
            continue;
        }
        for (at, piece) in part.split('`').enumerate() {
            mapped.push_str(&change(piece, at % 2 == 1));
        }
    }
    mapped
}

/// Returns the anchor under which the book and code hosts link to a heading.
pub fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || ['-', '_', ' '].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the plural of a type that is one or two words; a link and a longer text stay as they are.
pub fn plural(ty: &str) -> String {
    let is_words = ty.split(' ').count() < 3 && ty.chars().all(|c| c.is_alphabetic() || c == ' ');
    if is_words { format!("{ty}s") } else { ty.to_owned() }
}
