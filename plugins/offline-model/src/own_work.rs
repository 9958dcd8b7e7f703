//! The work for which the model needs no tool: it counts in a text, and finds the longest lines of one.

use guest_kit::measure;
use serde_json::{Value, json};

use crate::{
    task::{Clause, stem},
    tools::DEFAULT_NUMBER,
};

/// The stems of what is counted.
const COUNTED: &[&str] = &["word", "line", "character", "byte"];

/// Returns `true` if the clause asks for nothing but counts of a text, or its longest lines.
pub(crate) fn is_possible(clause: &Clause) -> bool {
    let only = |words: &[&str]| clause.keywords.iter().all(|keyword| words.contains(&keyword.as_str()));
    match &clause.superlative {
        Some((superlative, noun)) => superlative == "longest" && stem(noun) == "line" && only(&["longest", "line"]),
        None => {
            let nouns = clause.keywords.iter().filter(|keyword| COUNTED.contains(&keyword.as_str()));
            clause.counts && nouns.count() > 0 && only(&[COUNTED, &["count"]].concat())
        }
    }
}

/// Does the work of a clause on a text. The result has the shape of a tool's.
pub(crate) fn result(clause: &Clause, text: &str) -> Value {
    match clause.superlative {
        Some(_) => {
            let number = usize::try_from(clause.number.unwrap_or(DEFAULT_NUMBER)).unwrap_or(usize::MAX);
            json!({ "lines": measure::longest(text, number) })
        }
        None => json!(measure::count(text)),
    }
}
