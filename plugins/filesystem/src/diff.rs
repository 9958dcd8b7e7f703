//! Unified diffs of two texts.

use std::fmt;

use imara_diff::{
    Algorithm, Diff, InternedInput, Interner, Token, UnifiedDiffConfig, UnifiedDiffPrinter, sources::lines,
};

/// The number of unchanged lines around a change.
const CONTEXT: u32 = 3;

/// Returns the unified diff of two texts, headed by the names of their files; empty if they are equal.
pub(crate) fn unified(name_a: &str, a: &str, name_b: &str, b: &str) -> String {
    if a == b {
        return String::new();
    }
    let input = InternedInput::new(lines(a), lines(b));
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let mut config = UnifiedDiffConfig::default();
    config.context_len(CONTEXT);
    format!("--- {name_a}\n+++ {name_b}\n{}", diff.unified_diff(&Printer(&input.interner), config, &input))
}

/// A printer in the format of `diff -u`, which marks a last line without an end.
struct Printer<'a>(&'a Interner<&'a str>);

impl Printer<'_> {
    fn line(&self, f: &mut impl fmt::Write, mark: char, token: Token) -> fmt::Result {
        let line = self.0[token];
        write!(f, "{mark}{line}")?;
        if line.ends_with('\n') { Ok(()) } else { f.write_str("\n\\ No newline at end of file\n") }
    }
}

impl UnifiedDiffPrinter for Printer<'_> {
    fn display_header(
        &self,
        mut f: impl fmt::Write,
        start_before: u32,
        start_after: u32,
        len_before: u32,
        len_after: u32,
    ) -> fmt::Result {
        // An empty range names the line before it.
        let range = |start: u32, len: u32| match len {
            1 => (start + 1).to_string(),
            0 => format!("{start},0"),
            len => format!("{},{len}", start + 1),
        };
        writeln!(f, "@@ -{} +{} @@", range(start_before, len_before), range(start_after, len_after))
    }

    fn display_context_token(&self, mut f: impl fmt::Write, token: Token) -> fmt::Result {
        self.line(&mut f, ' ', token)
    }

    fn display_hunk(&self, mut f: impl fmt::Write, before: &[Token], after: &[Token]) -> fmt::Result {
        before.iter().try_for_each(|token| self.line(&mut f, '-', *token))?;
        after.iter().try_for_each(|token| self.line(&mut f, '+', *token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unified_diff_matches_diff_u() {
        let numbers = |skip: u32| (1..=20).filter(|n| *n != skip).map(|n| format!("{n}\n")).collect::<String>();
        for (a, b, expected) in [
            ("a\n", "a\n", ""),
            ("a\nb\n", "a\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
            ("", "a\n", "@@ -0,0 +1 @@\n+a\n"),
            ("a\n", "", "@@ -1 +0,0 @@\n-a\n"),
            ("a\n", "a", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"),
            ("x\na", "y\na", "@@ -1,2 +1,2 @@\n-x\n+y\n a\n\\ No newline at end of file\n"),
            ("ü\r\n", "ü\n", "@@ -1 +1 @@\n-ü\r\n+ü\n"),
        ] {
            let expected = if expected.is_empty() { String::new() } else { format!("--- f\n+++ g\n{expected}") };
            assert_eq!(unified("f", a, "g", b), expected, "{a:?} {b:?}");
        }
        let two = unified("f", &numbers(3), "f", &numbers(17));
        assert!(two.contains("@@ -1,5 +1,6 @@\n 1\n 2\n+3\n 4\n"), "{two}");
        assert!(two.contains("@@ -13,7 +14,6 @@\n 14\n 15\n 16\n-17\n 18\n"), "{two}");
    }

    #[test]
    fn diff_of_unrelated_texts_finishes_in_time() {
        let text = |offset: u32| (0..100_000).map(|n| format!("{}\n", n * 2 + offset)).collect::<String>();
        assert_eq!(unified("f", &text(0), "g", &text(1)).lines().count(), 200_003);
    }
}
