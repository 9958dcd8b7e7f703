use crate::error::{is_unseen, legible};

/// Formats the words of a command for a person: unambiguous, and without characters that a terminal acts on. The result is
/// not a shell command line.
pub fn shown_words<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(shown_word).collect::<Vec<_>>().join(" ")
}

fn shown_word(word: &str) -> String {
    // Some letters look like a blank.
    let is_plain = |c: char| c.is_alphanumeric() && !is_unseen(c) || "_-./:=@%+,~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.into() } else { legible(&format!("{word:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_commands_are_unambiguous() {
        for (words, shown) in [
            (&["cargo", "test", "--all"][..], "cargo test --all"),
            (&["cargo", "test --all"], r#"cargo "test --all""#),
            (&["echo", ""], r#"echo """#),
            (&["echo", "\"", "a\"b"], r#"echo "\"" "a\"b""#),
            (&["sh", "-c", "rm -rf ~; echo $HOME"], r#"sh -c "rm -rf ~; echo $HOME""#),
            (&["echo", "a\nallow it?"], r#"echo "a\nallow it?""#),
            (&["echo", "\u{1b}[2J", "\u{202e}x", "\u{200b}"], r#"echo "\u{1b}[2J" "\u{202e}x" "\u{200b}""#),
            (&["rm", "a\u{3164}/", "\u{115f}"], r#"rm "a\u{3164}/" "\u{115f}""#),
            (&["echo", "*", "a'b", "\\", "`x`"], r#"echo "*" "a'b" "\\" "`x`""#),
        ] {
            assert_eq!(shown_words(words.iter().copied()), shown);
        }
    }
}
