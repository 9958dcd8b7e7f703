//! Merges two changes of one text, line by line.

use std::{ops::Range, time::Instant};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use crate::limits;

/// Lines of the old text, and those that replace them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LineHunk<'a> {
    old: Range<usize>,
    new: Vec<&'a str>,
}

/// Makes both changes of `base`, that to `one` and that to `two`; `None` if they change the same lines, or lines that
/// follow each other, in different ways.
pub(super) fn merged_lines(base: &str, one: &str, two: &str) -> Option<String> {
    let base: Vec<&str> = base.split_inclusive('\n').collect();
    let (ones, twos) = (hunks(&base, one), hunks(&base, two));
    let (mut ones, mut twos) = (ones.into_iter().peekable(), twos.into_iter().peekable());
    let (mut merged, mut at) = (String::new(), 0);
    loop {
        let hunk = match (ones.peek(), twos.peek()) {
            (None, None) => break,
            (Some(one), Some(two)) if one == two => {
                twos.next();
                ones.next()
            }
            (Some(one), Some(two)) if one.old.start <= two.old.end && two.old.start <= one.old.end => return None,
            (Some(one), Some(two)) if one.old.start < two.old.start => ones.next(),
            (Some(_), None) => ones.next(),
            (_, Some(_)) => twos.next(),
        };
        let LineHunk { old, new } = hunk?;
        merged.extend(base.get(at..old.start)?.iter().copied());
        merged.extend(new);
        at = old.end;
    }
    merged.extend(base.get(at..)?.iter().copied());
    Some(merged)
}

/// Returns the changes from `base` to a text, in order. Those that follow each other are one.
fn hunks<'a>(base: &[&str], text: &'a str) -> Vec<LineHunk<'a>> {
    let lines: Vec<&'a str> = text.split_inclusive('\n').collect();
    let deadline = Instant::now() + limits::DIFF_TIME;
    let mut hunks: Vec<LineHunk<'a>> = Vec::new();
    for change in capture_diff_slices_deadline(Algorithm::Myers, base, &lines, Some(deadline)) {
        if change.tag() == DiffTag::Equal {
            continue;
        }
        let (old, new) = (change.old_range(), &lines[change.new_range()]);
        match hunks.last_mut() {
            Some(last) if last.old.end == old.start => {
                last.old.end = old.end;
                last.new.extend(new);
            }
            _ => hunks.push(LineHunk { old, new: new.to_vec() }),
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_different_lines_are_both_made() {
        let base = "a\nb\nc\nd\ne\n";
        for (one, two, merged) in [
            (base, base, Some(base)),
            ("A\nb\nc\nd\ne\n", base, Some("A\nb\nc\nd\ne\n")),
            (base, "a\nb\nc\nd\nE", Some("a\nb\nc\nd\nE")),
            ("A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n", Some("A\nb\nc\nd\nE\n")),
            ("a\nb\nc\nd\ne\nf\n", "x\na\nc\nd\ne\n", Some("x\na\nc\nd\ne\nf\n")),
            // The same change, and another one.
            ("a\nB\nc\nd\ne\n", "a\nB\nc\nd\n", Some("a\nB\nc\nd\n")),
            ("a\nB\nc\nd\ne\n", "a\nX\nc\nd\ne\n", None),
            ("a\nB\nc\nd\ne\n", "a\nb\nC\nd\ne\n", None),
            ("x\na\nb\nc\nd\ne\n", "y\na\nb\nc\nd\ne\n", None),
            ("", "a\nb\nC\nd\ne\n", None),
        ] {
            assert_eq!(merged_lines(base, one, two).as_deref(), merged, "{one:?} {two:?}");
            assert_eq!(merged_lines(base, two, one).as_deref(), merged, "{two:?} {one:?}");
        }
        assert_eq!(merged_lines("", "a\n", "").as_deref(), Some("a\n"));
        assert_eq!(merged_lines("a", "a\nb", "a").as_deref(), Some("a\nb"));
    }
}
