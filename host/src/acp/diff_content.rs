use std::path::Path;

use serde_json::Value;

use super::session_update::{call_diff, call_text, location};
use crate::event::FileDifference;

/// Returns a change of a file as the content of a tool call, and its location. An editor compares texts by itself, so it
/// is given the old and new text of each hunk; a change without lines is a sentence.
pub(super) fn diff_content(difference: &FileDifference) -> (Vec<Value>, Value) {
    let FileDifference { path, text } = difference;
    let hunks = hunks_of(text);
    let line = hunks.first().and_then(|hunk| hunk.line);
    let content = match hunks.is_empty() {
        true => vec![call_text(text.trim_end())],
        false => hunks.iter().map(|hunk| hunk.content(path)).collect(),
    };
    (content, location(path, line))
}

/// A part of a file that changes, with the lines around it.
#[derive(Debug, Default, PartialEq, Eq)]
struct DiffHunk {
    old: String,
    new: String,
    is_new_file: bool,
    /// The number of its first line after the change.
    line: Option<u32>,
}

impl DiffHunk {
    fn content(&self, path: &Path) -> Value {
        call_diff(path, (!self.is_new_file).then_some(&*self.old), &self.new)
    }

    /// Takes a line of a unified diff.
    fn take(&mut self, line: &str, last: &mut char) {
        let (sign, rest) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
        // A text without an end of its last line.
        if sign == "\\" {
            let without_end = |text: &mut String| {
                text.pop();
            };
            match *last {
                '-' => without_end(&mut self.old),
                '+' => without_end(&mut self.new),
                _ => [&mut self.old, &mut self.new].into_iter().for_each(without_end),
            }
            return;
        }
        if sign != "+" {
            self.old.push_str(rest);
            self.old.push('\n');
        }
        if sign != "-" {
            self.new.push_str(rest);
            self.new.push('\n');
        }
        *last = sign.chars().next().unwrap_or(' ');
    }
}

/// Reads a unified diff. Returns no hunks for a sentence.
fn hunks_of(text: &str) -> Vec<DiffHunk> {
    let mut lines = text.split('\n');
    let is_diff = lines.next().is_some_and(|line| line.starts_with("--- "));
    if !is_diff || !lines.next().is_some_and(|line| line.starts_with("+++ ")) {
        return Vec::new();
    }
    let is_new_file = text.starts_with("--- /dev/null\n");
    let (mut hunks, mut last) = (Vec::<DiffHunk>::new(), ' ');
    // The lines that the header of the hunk announces: a line of the file may look like a header.
    let mut left = (0, 0);
    for line in lines {
        if left == (0, 0) {
            if let Some((start, lengths)) = header_of(line) {
                left = lengths;
                let line = u32::try_from(start).ok().filter(|line| *line > 0);
                hunks.push(DiffHunk { is_new_file, line, ..DiffHunk::default() });
            } else if let (true, Some(hunk)) = (line.starts_with('\\'), hunks.last_mut()) {
                hunk.take(line, &mut last);
            }
            continue;
        }
        let Some(hunk) = hunks.last_mut() else { break };
        left = match line.chars().next() {
            Some('-') => (left.0 - usize::from(left.0 > 0), left.1),
            Some('+') => (left.0, left.1 - usize::from(left.1 > 0)),
            Some('\\') => left,
            _ => (left.0.saturating_sub(1), left.1.saturating_sub(1)),
        };
        hunk.take(line, &mut last);
    }
    hunks
}

/// Reads `@@ -1,2 +3,4 @@`: the first new line, and the numbers of old and new lines.
fn header_of(line: &str) -> Option<(usize, (usize, usize))> {
    let ranges = line.strip_prefix("@@ -")?.strip_suffix(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| match text.split_once(',') {
        Some((start, length)) => Some((start.parse::<usize>().ok()?, length.parse::<usize>().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    let ((_, old), (start, new)) = (range(old)?, range(new)?);
    Some((start, (old, new)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::change::text_difference;

    fn contents(before: Option<&str>, after: &str) -> Vec<(Value, Value)> {
        let text = text_difference("f", before, after);
        let (content, _) = diff_content(&FileDifference { path: "/p/f".into(), text });
        content.iter().map(|content| (content["oldText"].clone(), content["newText"].clone())).collect()
    }

    #[test]
    fn unified_diffs_become_old_and_new_texts() {
        for (before, after) in [
            ("a\nb\n", "a\nc\n"),
            ("a", "a\n"),
            ("a\n", "a"),
            ("a\nb", "a\nc"),
            ("--- x\n+++ y\n@@ -1 +1 @@\n", "--- x\n+++ z\n@@ -1 +1 @@\n"),
            ("é\n\n", "\n日\n"),
            ("x\n", ""),
        ] {
            assert_eq!(contents(Some(before), after), [(json!(before), json!(after))], "{before:?}");
        }
        assert_eq!(contents(None, "a\nb\n"), [(Value::Null, json!("a\nb\n"))]);
        let lines = |changed: &'static str| {
            (1..=30).map(move |n| if n == 5 || n == 25 { changed.into() } else { format!("{n}\n") })
        };
        let (before, after) = (lines("x\n").collect::<String>(), lines("y\n").collect::<String>());
        let hunks = contents(Some(&before), &after);
        assert_eq!(hunks[1].0, json!("22\n23\n24\nx\n26\n27\n28\n"));
        assert_eq!(hunks[1].1, json!("22\n23\n24\ny\n26\n27\n28\n"));
        assert_eq!(hunks.len(), 2);
    }

    #[test]
    fn change_without_lines_is_a_sentence() {
        let text = "docs: new empty folder\n".to_owned();
        let (content, at) = diff_content(&FileDifference { path: "/p/docs".into(), text });
        assert_eq!(content, [call_text("docs: new empty folder")]);
        assert_eq!(at, json!({"path": "/p/docs"}));
        let text = text_difference("f", Some("1\n2\n3\n4\n5\n"), "1\n2\n3\n4\n6\n");
        let (_, at) = diff_content(&FileDifference { path: "/p/f".into(), text });
        assert_eq!(at, json!({"path": "/p/f", "line": 2}));
    }
}
