//! Replacement of a text in a file, whatever its line ends.

use shelly_plugin::text::short;

/// The maximum number of characters of the file's actual text in an error.
const SHOWN: usize = 2_000;

/// The maximum number of places that an error names.
const PLACES: usize = 10;

/// Replaces `old` by `new` in `text`. `old` must occur exactly once unless `all` is set. If the file ends its lines with
/// CRLF and `old` with LF, or the other way round, they count as equal, and `new` gets the line ends of the file. The
/// error says what to do.
pub(crate) fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<String, String> {
    if old.is_empty() {
        return Err("`old_text` is empty; pass the text to be replaced, or use fs_write to write a whole file".into());
    }
    let (old, new) = in_lines_of(text, old, new);
    if old == new {
        return Err("`old_text` and `new_text` are equal, so nothing would change".into());
    }
    let places: Vec<usize> = text.match_indices(&*old).map(|(at, _)| at).collect();
    match places.len() {
        0 => Err(absent(text, &old)),
        1 => Ok(text.replacen(&*old, &new, 1)),
        _ if all => Ok(text.replace(&*old, &new)),
        count => Err(ambiguous(text, &places, count)),
    }
}

/// Returns `old` and `new` with the line ends of the file.
fn in_lines_of(text: &str, old: &str, new: &str) -> (String, String) {
    let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    let as_it_is = (old.to_owned(), new.to_owned());
    if text.contains(old) {
        // Text within a single line has no line ends to compare with, so those of the file decide.
        let is_crlf = !old.contains('\n') && ends_with_crlf(text);
        return if is_crlf { (old.to_owned(), crlf(new)) } else { as_it_is };
    }
    let other = crlf(old);
    if text.contains(&other) {
        return (other, crlf(new));
    }
    let other = old.replace("\r\n", "\n");
    if text.contains(&other) {
        return (other, new.replace("\r\n", "\n"));
    }
    as_it_is
}

/// Returns `true` if at least half of the lines end with CRLF.
fn ends_with_crlf(text: &str) -> bool {
    let crlf = text.matches("\r\n").count();
    crlf > 0 && 2 * crlf >= text.matches('\n').count()
}

fn ambiguous(text: &str, places: &[usize], count: usize) -> String {
    let lines: Vec<String> = places.iter().take(PLACES).map(|at| line_at(text, *at).to_string()).collect();
    let more = if count > PLACES { ", …" } else { "" };
    format!(
        "`old_text` occurs {count} times, in lines {}{more}; add the lines around the intended one, or set \
         `replace_all`",
        lines.join(", ")
    )
}

/// Returns the line number of a byte position, from 1.
fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
}

/// Returns the error for a text that does not occur, with the most similar text in the file.
fn absent(text: &str, old: &str) -> String {
    if text.is_empty() {
        return "`old_text` is not in the file, which is empty; use fs_write to write it".into();
    }
    if let Some((start, end)) = but_for_white_space(text, old) {
        let (first, last) = (line_at(text, start), line_at(text, end));
        let from = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let to = text[end..].find('\n').map_or(text.len(), |at| end + at);
        let there = short(text[from..to].trim_end_matches('\r'), SHOWN);
        return format!(
            "`old_text` is not in the file exactly; a text that differs only in white space is there. Lines {first} \
             to {last} are:\n{there}"
        );
    }
    match longest_beginning(text, old) {
        Some(Beginning { at, count, there, wanted }) => format!(
            "`old_text` is not in the file. Its first {count} lines match those from line {at} on, but line {} \
             is\n{}\nand `old_text` has\n{}",
            at + count,
            short(there, SHOWN / 4),
            short(wanted, SHOWN / 4)
        ),
        None => "`old_text` is not in the file, nor a similar text; read the file again".into(),
    }
}

/// Finds `old` with whitespace ignored. Returns the positions of its first and last character.
fn but_for_white_space(text: &str, old: &str) -> Option<(usize, usize)> {
    let squeeze = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let wanted = squeeze(old);
    if wanted.is_empty() {
        return None;
    }
    let at = squeeze(text).find(&wanted)?;
    // The match is mapped back to the text by counting the bytes that are not whitespace.
    let mut seen = 0;
    let mut start = None;
    for (place, c) in text.char_indices().filter(|(_, c)| !c.is_whitespace()) {
        if seen == at {
            start = Some(place);
        }
        seen += c.len_utf8();
        if seen >= at + wanted.len() {
            return start.map(|start| (start, place));
        }
    }
    None
}

/// A place in the file where the first lines of `old` match, and the lines that differ.
struct Beginning<'a> {
    /// The line of the file where the match begins, from 1.
    at: usize,
    /// The number of lines that are equal except for whitespace around them.
    count: usize,
    there: &'a str,
    wanted: &'a str,
}

/// Finds the place where the most of the first lines of `old` match, and at least one.
fn longest_beginning<'a>(text: &'a str, old: &'a str) -> Option<Beginning<'a>> {
    let wanted: Vec<&str> = old.lines().skip_while(|line| line.trim().is_empty()).collect();
    let lines: Vec<&str> = text.lines().collect();
    let first = wanted.first()?.trim();
    let mut best: Option<Beginning> = None;
    for at in (0..lines.len()).filter(|at| lines[*at].trim() == first) {
        let alike = lines[at..].iter().zip(&wanted).take_while(|(there, wanted)| there.trim() == wanted.trim()).count();
        if alike < wanted.len() && best.as_ref().is_none_or(|best| alike > best.count) {
            let there = lines.get(at + alike).copied().unwrap_or("(the end of the file)");
            best = Some(Beginning { at: at + 1, count: alike, there, wanted: wanted[alike] });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_replaces_a_unique_match() {
        for (text, old, new, expected) in [
            ("a b c", "b", "x", "a x c"),
            ("a\nb\n", "a\nb", "c\nd", "c\nd\n"),
            ("no end", "end", "newline", "no newline"),
            ("ä日本ü", "日本", "🦀", "ä🦀ü"),
            ("a b", "a ", "", "b"),
            ("\u{feff}a\nb", "a", "x", "\u{feff}x\nb"),
            // In a file whose lines end with CRLF, the new text gets CRLF.
            ("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n"),
            ("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"),
            ("a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"),
            ("a\r\nb\r\n", "a\nb", "x\r\ny", "x\r\ny\r\n"),
            // In a file whose lines end with LF, the new text gets LF.
            ("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"),
            // In a file with mixed line ends, a literal match is replaced as it is.
            ("a\nb\r\nc\n", "a\n", "x\ny\n", "x\ny\nb\r\nc\n"),
            ("a\nb\nc\r\n", "c", "x\ny", "a\nb\nx\ny\r\n"),
        ] {
            assert_eq!(replace(text, old, new, false).as_deref(), Ok(expected), "{text:?} {old:?}");
        }
    }

    #[test]
    fn edit_of_several_matches_is_refused_unless_all_are_replaced() {
        let text = "x = 1\ny\nx = 1\r\nx = 1";
        let error = replace(text, "x = 1", "z", false).unwrap_err();
        assert!(error.starts_with("`old_text` occurs 3 times, in lines 1, 3, 4; add"), "{error}");
        assert_eq!(replace(text, "x = 1", "z", true).as_deref(), Ok("z\ny\nz\r\nz"));
        assert_eq!(replace("aaaa", "aa", "b", true).as_deref(), Ok("bb"));
        assert!(replace(&"a\n".repeat(99), "a", "b", false).unwrap_err().contains("9, 10, …; add"));
    }

    #[test]
    fn edit_with_empty_or_equal_texts_is_refused() {
        for (old, new, why) in [("", "x", "is empty"), ("a", "a", "are equal"), ("a\n", "a\r\n", "are equal")] {
            let error = replace("a\r\nb", old, new, true).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(replace("", "a", "b", false).unwrap_err().contains("which is empty"));
    }

    #[test]
    fn edit_error_shows_the_nearest_lines() {
        let text = "fn main() {\n\tlet a = 1;\n\tlet b = 2;\n}\n";
        let tabs = replace(text, "    let a = 1;\n    let b = 2;", "", false).unwrap_err();
        assert!(tabs.ends_with("Lines 2 to 3 are:\n\tlet a = 1;\n\tlet b = 2;"), "{tabs}");
        let inner = replace(text, "let a=1;", "", false).unwrap_err();
        assert!(inner.ends_with("Lines 2 to 2 are:\n\tlet a = 1;"), "{inner}");
        let parts = replace(text, "let a = 1;\nlet c = 3;\n}", "", false).unwrap_err();
        assert!(parts.contains("first 1 lines match those from line 2 on, but line 3 is\n\tlet b = 2;\n"), "{parts}");
        assert!(parts.ends_with("`old_text` has\nlet c = 3;"), "{parts}");
        let end = replace(text, "}\nfn other() {}", "", false).unwrap_err();
        assert!(end.contains("line 5 is\n(the end of the file)\n"), "{end}");
        let nothing = replace(text, "while true {", "", false).unwrap_err();
        assert!(nothing.contains("nor a similar text"), "{nothing}");
        assert!(replace(text, " \n ", "", false).unwrap_err().contains("nor a similar text"));
        let long = replace(&format!("x{}", " y".repeat(9_000)), &"y".repeat(8_000), "", false).unwrap_err();
        assert!(long.len() < 3_000, "{}", long.len());
    }

    #[test]
    fn near_match_ignores_whitespace_in_any_script() {
        assert_eq!(but_for_white_space("ä  日\n本 ü", "日本"), Some((4, 8)));
        assert_eq!(but_for_white_space("a b", "ab c"), None);
    }
}
