//! The shared state of a session in words, as its journal has it.

use std::collections::BTreeMap;

use crate::{
    agent::journal::JournalState,
    cli::render::{BOLD, DIM, PLAIN, name, one_line},
    limits,
};

/// The maximum number of characters of a title or a value.
const VALUE_CHARS: usize = 200;

/// Formats the task board, one line for each task.
pub fn tasks_text(state: &JournalState) -> String {
    let mut tasks: Vec<(&str, String)> = Vec::new();
    for task in state.tasks() {
        let who = task.assignee.as_deref().map_or(String::new(), |who| format!(", {}", name(who)));
        let after = match task.blocked_by.is_empty() {
            true => String::new(),
            false => format!(", after {}", name(&task.blocked_by.join(", "))),
        };
        let (id, title, status) = (name(&task.id), one_line(&task.title, VALUE_CHARS), task.status.as_str());
        let line = format!("  {id}  {title}  {DIM}{status}{who}{after}{PLAIN}\n");
        // Each change has the whole task, so the newest one counts.
        match tasks.iter_mut().find(|(known, _)| *known == task.id) {
            Some((_, known)) => *known = line,
            None => tasks.push((&task.id, line)),
        }
    }
    shown(tasks.into_iter().map(|(_, line)| line).collect(), "there is no task on the board of this session")
}

/// Formats the blackboards, one line for each key.
pub fn blackboards_text(state: &JournalState) -> String {
    let mut lines = Vec::new();
    for (namespace, changes) in state.blackboards() {
        let mut values = BTreeMap::new();
        for change in changes {
            match &change.value {
                Some(value) => drop(values.insert(&change.key, value)),
                None => drop(values.remove(&change.key)),
            }
        }
        if !values.is_empty() {
            lines.push(format!("{BOLD}{}{PLAIN}\n", name(namespace)));
        }
        lines.extend(values.iter().map(|(key, value)| format!("  {}: {}\n", name(key), one_line(value, VALUE_CHARS))));
    }
    shown(lines, "there is nothing on the blackboards of this session")
}

/// Joins the lines that are shown, with one that counts the others.
fn shown(lines: Vec<String>, none: &str) -> String {
    if lines.is_empty() {
        return none.into();
    }
    let more = lines.len().saturating_sub(limits::CHAT_LIST_ROWS);
    let shown: String = lines.into_iter().take(limits::CHAT_LIST_ROWS).collect();
    if more > 0 { format!("{shown}  and {more} more\n") } else { shown }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{agent::journal::JournalRecord, cli::render::without_colours};

    fn state(records: &[serde_json::Value]) -> JournalState {
        let records =
            records.iter().map(|record| (0, serde_json::from_value::<JournalRecord>(record.clone()).unwrap()));
        JournalState::of(records).unwrap()
    }

    #[test]
    fn newest_state_of_tasks_and_blackboards_is_shown() {
        let task = |id: &str, status: &str, after: &[&str]| {
            json!({"kind": "task", "task": {
                "id": id, "title": "Read\x1b[2J", "description": "", "status": status, "assignee": "ada",
                "blocked_by": after, "metadata": {}, "created_by": null,
            }})
        };
        let board = |key: &str, revision: u64, value: Option<&str>| json!({"kind": "blackboard", "namespace": "team", "change": {"key": key, "revision": revision, "value": value}});
        let state = state(&[
            task("task-1", "in_progress", &[]),
            task("task-2", "pending", &["task-1"]),
            task("task-1", "completed", &[]),
            board("plan", 1, Some("\"old\"")),
            board("gone", 2, Some("1")),
            board("plan", 3, Some("{\"a\":\n1}")),
            board("gone", 4, None),
        ]);
        let lines = |text: &str| without_colours(text).lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            lines(&tasks_text(&state)),
            ["  task-1  Read\\u{1b}[2J  completed, ada", "  task-2  Read\\u{1b}[2J  pending, ada, after task-1",]
        );
        assert_eq!(lines(&blackboards_text(&state)), ["team", "  plan: {\"a\": 1}"]);
        let empty = JournalState::default();
        assert!(tasks_text(&empty).contains("no task") && blackboards_text(&empty).contains("nothing"));
    }
}
