//! Delegation: passes on tasks that the own tools cannot do, and reports the end of delegated tasks.

use serde_json::{Value, json};
use shelly_plugin::{Message, types::Role};

use crate::{
    plan::Call,
    task::{Task, stems},
};

/// The tools that the host gives to an agent that may delegate, and to one that was delegated to.
pub(crate) const DELEGATE: &str = "delegate";
pub(crate) const COMPLETE: &str = "task_complete";

/// An agent that the system prompt lists.
struct Other {
    name: String,
    about: Vec<String>,
}

/// Delegates the task to the agent whose description is most similar. If each part of the task names a file of its own,
/// each part is delegated separately. Returns `None` if there are no other agents.
pub(crate) fn hand_on(text: &str, task: &Task, messages: &[Message]) -> Option<Call> {
    let others = others(messages);
    let separate = task.clauses.len() > 1 && task.clauses.iter().all(|clause| !clause.paths.is_empty());
    let parts: Vec<String> = match separate {
        true => task
            .clauses
            .iter()
            .map(|clause| format!("{} {}", clause.words.join(" "), clause.paths.join(" and ")))
            .collect(),
        false => vec![text.to_owned()],
    };
    let to = |part: &String| {
        let words = stems(part);
        let shared = |other: &&Other| other.about.iter().filter(|stem| words.contains(stem)).count();
        // Of equally similar agents, the first is chosen.
        others.iter().rev().max_by_key(shared)
    };
    let tasks: Option<Vec<Value>> = parts
        .iter()
        .map(|part| {
            Some(json!({ "agent": to(part)?.name, "task": part, "context": format!("It is a part of: {text}") }))
        })
        .collect();
    Some(Call { tool: DELEGATE.into(), arguments: json!({ "tasks": tasks? }) })
}

/// Returns `true` if there are agents to which tasks can be delegated.
pub(crate) fn has_others(messages: &[Message]) -> bool {
    !others(messages).is_empty()
}

/// Returns the agents of the section `<available_agents>`, which has lines of the form `- name: description`.
fn others(messages: &[Message]) -> Vec<Other> {
    let system = messages.iter().find(|message| message.role == Role::System).map(Message::text).unwrap_or_default();
    let section = system.split_once("<available_agents>").map_or("", |(_, section)| section);
    let other = |line: &str| {
        let (name, about) = line.strip_prefix("- ")?.split_once(':').unwrap_or((line.strip_prefix("- ")?, ""));
        Some(Other { name: name.trim().to_owned(), about: stems(about) })
    };
    section.lines().take_while(|line| !line.contains("</")).filter_map(other).collect()
}

/// Describes the results of delegated tasks.
pub(crate) fn report(result: &str) -> String {
    let entries: Vec<Value> = serde_json::from_str(result).unwrap_or_default();
    let told = |entry: &Value| {
        let (agent, text) = (entry["agent"].as_str().unwrap_or("somebody"), |key: &str| entry[key].as_str());
        match (text("result"), text("error")) {
            (Some(result), _) => format!("{agent} says: {result}"),
            (None, Some(error)) => format!("{agent} could not do it: {error}"),
            (None, None) => format!("{agent} says nothing."),
        }
    };
    if entries.is_empty() {
        return format!("There is no result: {result}");
    }
    entries.iter().map(told).collect::<Vec<_>>().join("\n\n")
}

/// Reports the end of the task to the agent that delegated it.
pub(crate) fn complete(summary: String, done: bool) -> Call {
    let status = if done { "completed" } else { "failed" };
    Call { tool: COMPLETE.into(), arguments: json!({ "status": status, "summary": summary }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offline_model_delegates_to_the_best_described_agent() {
        let prompt = "<available_agents>\nAgents that you can give tasks with `delegate`:\n- poet: writes poems\n- \
                      counter: counts words in files [cost: cheap]\n- silent\n</available_agents>";
        let messages = [Message::new(Role::System, prompt)];
        let agents = |text: &str| {
            let call = hand_on(text, &crate::task::parse(text, &[]), &messages).unwrap();
            let tasks = call.arguments["tasks"].as_array().unwrap().clone();
            tasks.iter().map(|task| task["agent"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(agents("How many words are in a.txt?"), ["counter"]);
        assert_eq!(agents("How many words are in a.txt, and how many lines are in b.txt?"), ["counter", "counter"]);
        assert_eq!(agents("Sing."), ["poet"]);
        assert!(hand_on("Sing.", &Task::default(), &[]).is_none());
    }

    #[test]
    fn offline_model_reports_delegation_results() {
        let entries = r#"[{"agent":"a","result":"two"},{"agent":"b","error":"late"},{"agent":"c"}]"#;
        assert_eq!(report(entries), "a says: two\n\nb could not do it: late\n\nc says nothing.");
        assert_eq!(report("oops"), "There is no result: oops");
    }
}
