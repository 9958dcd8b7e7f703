//! Unified diffs of file changes for people: bounded, and replaced by words for content without lines.

use similar::{Algorithm, ChangeTag, TextDiff};

use crate::limits;

/// The diff of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileDiff {
    /// The text for people: lines that begin with ` `, `+`, `-` or `@`, or a sentence.
    pub text: String,
    /// The numbers of added and removed lines; `None` for content without lines.
    pub lines: Option<(usize, usize)>,
}

/// Returns the unified diff between two texts, for people; `None` stands for a missing file.
pub fn text_difference(shown: &str, before: Option<&str>, after: &str) -> String {
    between(shown, before.map(str::as_bytes), Some(after.as_bytes())).text
}

/// Computes the diff from `before` to `after`; `None` stands for a missing file.
pub(super) fn between(shown: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> FileDiff {
    let sentence = |what: String| FileDiff { text: format!("{shown}: {what}\n"), lines: None };
    let bytes = |content: Option<&[u8]>| content.map_or(0, <[u8]>::len);
    let size = |content: Option<&[u8]>| content.map_or("no file".into(), |content| format!("{} bytes", content.len()));
    let becomes = || format!("{} before, {} after", size(before), size(after));
    if before == after {
        return FileDiff { text: format!("{shown}: unchanged\n"), lines: Some((0, 0)) };
    }
    if bytes(before).max(bytes(after)) > limits::DIFF_BYTES {
        return sentence(format!("too large to be shown: {}", becomes()));
    }
    let (Some(old), Some(new)) = (text(before), text(after)) else {
        return sentence(format!("not text: {}", becomes()));
    };
    // If all lines end in CRLF, showing it on each line is useless.
    let crlf = [old, new].iter().all(|text| text.is_empty() || ends_all_in_crlf(text));
    let plain = |text: &str| if crlf { text.replace("\r\n", "\n") } else { text.to_owned() };
    let (old, new) = (plain(old), plain(new));
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(limits::DIFF_TIME).diff_lines(&old, &new);
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    let name = |content: Option<&[u8]>| if content.is_some() { shown } else { "/dev/null" };
    let mut text = diff.unified_diff().context_radius(3).header(name(before), name(after)).to_string();
    if text.is_empty() {
        // An empty file and a missing file have the same text.
        text = format!("{shown}: {}\n", becomes());
    }
    if crlf && (old.contains('\n') || new.contains('\n')) {
        text.push_str("(all lines end in CRLF, before and after)\n");
    }
    FileDiff { text, lines: Some((count(ChangeTag::Insert), count(ChangeTag::Delete))) }
}

/// Returns the content as text; `None` if it is binary. A missing file is an empty text.
fn text(content: Option<&[u8]>) -> Option<&str> {
    let text = str::from_utf8(content.unwrap_or_default()).ok()?;
    (!text.contains('\0')).then_some(text)
}

fn ends_all_in_crlf(text: &str) -> bool {
    text.split_inclusive('\n').all(|line| line.ends_with("\r\n") && !line[..line.len() - 2].contains('\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_is_lines_or_a_sentence() {
        let head = "--- f\n+++ f\n";
        for (before, after, text, lines) in [
            (&b"a\nb\n"[..], &b"a\nc\n"[..], format!("{head}@@ -1,2 +1,2 @@\n a\n-b\n+c\n"), Some((1, 1))),
            (b"a", b"a\n", format!("{head}@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"), Some((1, 1))),
            (
                b"a\r\nb\r\n",
                b"a\r\nc\r\n",
                format!("{head}@@ -1,2 +1,2 @@\n a\n-b\n+c\n(all lines end in CRLF, before and after)\n"),
                Some((1, 1)),
            ),
            (b"a\r\n", b"a\n", format!("{head}@@ -1 +1 @@\n-a\r\n+a\n"), Some((1, 1))),
            (b"a\xff", b"a", "f: not text: 2 bytes before, 1 bytes after\n".into(), None),
            (b"a\0", b"a", "f: not text: 2 bytes before, 1 bytes after\n".into(), None),
            (b"a", b"a", "f: unchanged\n".into(), Some((0, 0))),
            (
                &vec![b'x'; limits::DIFF_BYTES + 1],
                b"",
                format!("f: too large to be shown: {} bytes before, 0 bytes after\n", limits::DIFF_BYTES + 1),
                None,
            ),
        ] {
            assert_eq!(between("f", Some(before), Some(after)), FileDiff { text, lines }, "{before:.20?}");
        }
        assert_eq!(between("f", None, Some(b"a\nb\n")).text, "--- /dev/null\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(between("f", Some(b"a\n"), None).lines, Some((0, 1)));
        assert_eq!(between("f", None, Some(b"")).text, "f: no file before, 0 bytes after\n");
        assert_eq!(
            between("日本", Some("é\n".as_bytes()), Some("日\n".as_bytes())).text,
            "--- 日本\n+++ 日本\n@@ -1 +1 @@\n-é\n+日\n"
        );
    }

    #[test]
    fn diff_of_unrelated_texts_is_bounded_in_time() {
        let lines = |seed: usize| (0..60_000).map(|n| format!("{}\n", (n * seed) % 99_991)).collect::<String>();
        let started = std::time::Instant::now();
        let difference = between("f", Some(lines(7).as_bytes()), Some(lines(13).as_bytes()));
        assert!(difference.lines.is_some(), "{:.80}", difference.text);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }
}
