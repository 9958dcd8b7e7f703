use std::sync::Arc;

use crate::{agent::context::AgentGroup, limits};

/// Returns an instance name such as `coder-parser-3`: the agent, the first significant word of the task, a number.
pub(super) fn instance_name(agent_group: &AgentGroup, agent: &str, task: &str) -> Arc<str> {
    format!("{agent}-{}-{}", slug(task), agent_group.registry.next_id(agent)).into()
}

fn slug(task: &str) -> String {
    const STOP_WORDS: [&str; 40] = [
        "the", "and", "for", "with", "from", "into", "onto", "this", "that", "these", "those", "all", "any", "are",
        "was", "were", "has", "have", "had", "can", "could", "should", "would", "will", "please", "you", "your", "our",
        "its", "not", "but", "how", "what", "when", "where", "which", "who", "why", "many", "much",
    ];
    let words = task.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase());
    let mut word = words
        .filter(|word| word.len() >= 3 && !STOP_WORDS.contains(&word.as_str()))
        // Without `-`, so that the agent's part of the name can be told apart and agents of other names never share an
        // instance name.
        .map(|word| word.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect::<String>())
        .next()
        .unwrap_or_else(|| "task".into());
    word.truncate(word.floor_char_boundary(limits::SLUG_BYTES));
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_named_after_its_task() {
        for (task, word) in [
            ("Refactor the parser", "refactor"),
            ("the and for with", "task"),
            ("", "task"),
            ("do it", "task"),
            ("\"Internationalization\" of dates", "internationa"),
            ("über-große Änderung", "über_große"),
            ("日本語のテキストを読む", "日本語の"),
            ("src/lib.rs: mend", "src_lib_rs"),
        ] {
            assert_eq!(slug(task), word);
        }
    }
}
