//! The words for runs whose entries this host cannot read.

use serde_json::{Value, json};

use crate::{cli::render::name, cluster::UnreadableRuns, error::count};

/// Returns the words for runs that are left alone; `None` if there are none.
pub fn unreadable_text(unreadable: &UnreadableRuns) -> Option<String> {
    let UnreadableRuns { newer, without_key, other, named } = unreadable;
    let reasons = [
        (*newer, "written by a newer shelly-host: update this host"),
        (*without_key, "encrypted with a key that this host does not have: name its file under cluster.encryption"),
        (*other, "changed by somebody, or in no known form: ask who runs the NATS server"),
    ];
    let reasons: Vec<_> =
        reasons.iter().filter(|(number, _)| *number > 0).map(|(n, why)| format!("{n} {why}")).collect();
    if reasons.is_empty() {
        return None;
    }
    let mut names: Vec<_> = named.iter().map(|id| name(id)).collect();
    if named.len() < unreadable.total() {
        names.push("…".into());
    }
    let names = names.join(", ");
    let runs = count(unreadable.total() as u64, "run", "runs");
    Some(format!("{runs} left alone, which this host cannot read ({names}): {}", reasons.join("; ")))
}

/// Returns the counts and the ids of runs that are left alone.
pub fn unreadable_json(unreadable: &UnreadableRuns) -> Value {
    let UnreadableRuns { newer, without_key, other, named } = unreadable;
    json!({"newer": newer, "without_key": without_key, "other": other, "runs": named})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_runs_are_named_with_what_to_do() {
        let named = vec!["a".to_owned(), "b".to_owned()];
        let some = UnreadableRuns { newer: 2, without_key: 1, other: 0, named };
        let text = unreadable_text(&some).unwrap();
        for words in ["3 runs left alone", "(a, b, …)", "2 written by a newer", "1 encrypted with a key"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!(unreadable_json(&some)["runs"], json!(["a", "b"]));
        assert_eq!(unreadable_text(&UnreadableRuns::default()), None);
    }
}
