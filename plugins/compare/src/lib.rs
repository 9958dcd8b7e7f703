//! Tools that compare texts by lines, from their arguments alone. `text_diff` returns the changes between two texts as a
//! unified diff. `apply_patch` applies a unified diff to a text. `text_merge` merges two texts that were derived from the
//! same text.
//!
//! Bound: 20,000 lines a text, because the cost of a comparison grows with the square of the differences.

use diffy::{ConflictStyle, DiffOptions, MergeOptions, Patch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints};

shelly_plugin::export!(tools: [TextDiff, ApplyPatch, TextMerge]);

/// The maximum number of lines of a text.
const MAX_LINES: usize = 20_000;

/// The maximum number of unchanged lines around a change.
const MAX_CONTEXT: usize = 1_000;

struct TextDiff;

#[derive(Deserialize, JsonSchema)]
struct TextDiffArgs {
    /// The old text.
    a: String,
    /// The new text.
    b: String,
    /// Unchanged lines shown around each change; 3 if left out.
    #[schemars(range(min = 0, max = 1000))]
    context: Option<usize>,
}

impl Tool for TextDiff {
    const NAME: &'static str = "text_diff";
    const DESCRIPTION: &'static str = "Compares two texts by lines and returns the difference as a unified diff.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = TextDiffArgs;

    fn call(args: TextDiffArgs, _call: &Call) -> Result<Reply, Error> {
        diff(&args).map(Reply::from)
    }
}

fn diff(args: &TextDiffArgs) -> Result<String, Error> {
    check(&[("a", &args.a), ("b", &args.b)])?;
    let context = args.context.unwrap_or(3);
    if context > MAX_CONTEXT {
        return Err(Error::Invalid(format!("`context` is {context}; use at most {MAX_CONTEXT}")));
    }
    if args.a == args.b {
        return Ok("the texts are identical".to_owned());
    }
    let mut options = DiffOptions::new();
    options.set_context_len(context).set_original_filename("a").set_modified_filename("b");
    Ok(options.create_patch(&args.a, &args.b).to_string())
}

struct ApplyPatch;

#[derive(Deserialize, JsonSchema)]
struct ApplyPatchArgs {
    /// The text that the patch was made for.
    text: String,
    /// The patch: a unified diff of one file.
    patch: String,
    /// True to undo the patch instead of applying it.
    reverse: Option<bool>,
}

impl Tool for ApplyPatch {
    const NAME: &'static str = "apply_patch";
    const DESCRIPTION: &'static str = "Applies a unified diff to a text and returns the new text. If a hunk does not \
                                       fit, nothing is changed. Lines may have moved. No file is changed.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = ApplyPatchArgs;

    fn call(args: ApplyPatchArgs, _call: &Call) -> Result<Reply, Error> {
        apply(&args).map(Reply::from)
    }
}

fn apply(args: &ApplyPatchArgs) -> Result<String, Error> {
    check(&[("text", &args.text), ("patch", &args.patch)])?;
    let patch = Patch::from_str(&args.patch).map_err(|cause| Error::Invalid(format!("`patch`: {cause}")))?;
    if patch.hunks().is_empty() {
        let message = "`patch` has no hunk; pass a unified diff, with lines such as `@@ -1,3 +1,4 @@`";
        return Err(Error::Invalid(message.to_owned()));
    }
    let applied = match args.reverse {
        Some(true) => diffy::apply(&args.text, &patch.reverse()),
        _ => diffy::apply(&args.text, &patch),
    };
    applied.map_err(|cause| {
        let hunks = patch.hunks().len();
        Error::Invalid(format!("{cause} of {hunks}: its unchanged and removed lines do not match the text"))
    })
}

struct TextMerge;

#[derive(Deserialize, JsonSchema)]
struct TextMergeArgs {
    /// The common text that both come from.
    base: String,
    /// The first changed text.
    ours: String,
    /// The second changed text.
    theirs: String,
}

#[derive(Serialize, Debug, PartialEq)]
struct Merged {
    /// The number of places that both texts have changed in different ways. In the text they are enclosed by `<<<<<<<`
    /// and `>>>>>>>`.
    conflicts: usize,
    text: String,
}

impl Tool for TextMerge {
    const NAME: &'static str = "text_merge";
    const DESCRIPTION: &'static str = "Merges two texts that come from a common one (three-way). Where both changed \
                                       the same lines in different ways, the result has conflict markers, and their \
                                       number is reported.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = TextMergeArgs;

    fn call(args: TextMergeArgs, _call: &Call) -> Result<Reply, Error> {
        Reply::json(&merge(&args)?)
    }
}

fn merge(args: &TextMergeArgs) -> Result<Merged, Error> {
    let TextMergeArgs { base, ours, theirs } = args;
    check(&[("base", base), ("ours", ours), ("theirs", theirs)])?;
    let mut options = MergeOptions::new();
    // The markers are longer than any in the texts, so that they are distinct.
    let marker = [base, ours, theirs].iter().map(|text| longest_marker(text)).max().unwrap_or(0).max(6) + 1;
    options.set_conflict_style(ConflictStyle::Merge).set_conflict_marker_length(marker);
    Ok(match options.merge(base, ours, theirs) {
        Ok(text) => Merged { conflicts: 0, text },
        Err(text) => {
            let begin = "<".repeat(marker);
            Merged { conflicts: text.lines().filter(|line| line.starts_with(&begin)).count(), text }
        }
    })
}

/// Returns the length of the longest run of `<` at the beginning of a line.
fn longest_marker(text: &str) -> usize {
    text.lines().map(|line| line.bytes().take_while(|byte| *byte == b'<').count()).max().unwrap_or(0)
}

fn check(texts: &[(&str, &str)]) -> Result<(), Error> {
    for (name, text) in texts {
        let lines = text.lines().count();
        if lines > MAX_LINES {
            return Err(Error::TooLarge(format!("`{name}` has {lines} lines, the maximum is {MAX_LINES}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "one\ntwo\nthree\nfour\nfive\n";

    fn diff_of(a: &str, b: &str, context: Option<usize>) -> String {
        diff(&TextDiffArgs { a: a.into(), b: b.into(), context }).unwrap()
    }

    fn apply_to(text: &str, patch: &str, reverse: bool) -> Result<String, Error> {
        apply(&ApplyPatchArgs { text: text.into(), patch: patch.into(), reverse: Some(reverse) })
    }

    #[test]
    fn diff_reports_changed_lines_and_line_endings() {
        let new = OLD.replace("three", "3");
        assert_eq!(diff_of(OLD, &new, Some(1)), "--- a\n+++ b\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n");
        assert_eq!(diff_of(OLD, OLD, None), "the texts are identical");
        assert!(diff_of("a", "b", None).contains("\\ No newline at end of file"));
        assert!(diff_of("ä\r\n", "ä\n", None).contains("-ä\r\n+ä\n"));
    }

    #[test]
    fn diff_can_be_applied_and_reverted() {
        for (old, new) in [
            (OLD, "one\n2\nthree\nfour\nfive\nsix\n"),
            (OLD, ""),
            ("", OLD),
            ("no end", "no end\n"),
            ("a\r\nb\r\n", "a\r\nB\r\n"),
            ("ü\n\n\nx", "\nü\nx"),
        ] {
            let patch = diff_of(old, new, None);
            assert_eq!(apply_to(old, &patch, false).as_deref(), Ok(new), "{patch}");
            assert_eq!(apply_to(new, &patch, true).as_deref(), Ok(old), "{patch}");
        }
        let moved = format!("zero\n{OLD}");
        let patch = diff_of(OLD, &OLD.replace("three", "3"), Some(1));
        assert_eq!(apply_to(&moved, &patch, false), Ok(moved.replace("three", "3")));
    }

    #[test]
    fn patch_that_does_not_apply_is_refused() {
        let patch = diff_of(OLD, &OLD.replace("three", "3"), None);
        for (text, patch, says) in [
            ("something else\n", patch.as_str(), "#1 of 1"),
            (OLD, "nonsense", "`patch`"),
            (OLD, "", "`patch`"),
            (OLD, "--- a\n+++ b\n@@ -1,9 +1 @@\n-one\n", "`patch`: "),
            (OLD, "--- a\n+++ b\n@@ -99999999999999999999999 +1 @@\n-one\n", "`patch`: "),
        ] {
            let told = apply_to(text, patch, false).unwrap_err();
            assert!(matches!(&told, Error::Invalid(message) if message.contains(says)), "{patch}: {told:?}");
        }
    }

    #[test]
    fn merge_combines_texts_and_marks_conflicts() {
        let merge = |ours: &str, theirs: &str| {
            merge(&TextMergeArgs { base: OLD.into(), ours: ours.into(), theirs: theirs.into() }).unwrap()
        };
        let merged = merge(&OLD.replace("one", "1"), &OLD.replace("five", "5"));
        assert_eq!(merged, Merged { conflicts: 0, text: "1\ntwo\nthree\nfour\n5\n".into() });
        let merged = merge(&OLD.replace("two", "<<<<<<< 2"), &OLD.replace("two", "zwei"));
        assert_eq!(merged.conflicts, 1);
        assert_eq!(merged.text, "one\n<<<<<<<< ours\n<<<<<<< 2\n========\nzwei\n>>>>>>>> theirs\nthree\nfour\nfive\n");
    }

    #[test]
    fn diff_of_too_many_lines_is_refused() {
        let many = "\n".repeat(MAX_LINES + 1);
        let told = diff(&TextDiffArgs { a: String::new(), b: many, context: None }).unwrap_err();
        assert_eq!(told, Error::TooLarge("`b` has 20001 lines, the maximum is 20000".into()));
        let args = TextDiffArgs { a: "a".into(), b: "b".into(), context: Some(1_001) };
        assert!(matches!(diff(&args), Err(Error::Invalid(_))));
    }
}
