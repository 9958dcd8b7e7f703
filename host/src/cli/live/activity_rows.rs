//! The rows in which the activity of a run is shown: the tree of agents with what each does, and its tool calls.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    call_arguments::telling_argument,
    run_activity::{AgentActivity, AgentStep, CallActivity, RunActivity},
};
use crate::cli::render::{name, one_line};

/// A row of the live region.
#[derive(Debug, PartialEq, Eq)]
pub struct ActivityRow {
    /// Its distance from the root of the tree.
    pub depth: usize,
    pub kind: ActivityRowKind,
    /// The agent or the tool; empty for a row that counts omitted agents.
    pub subject: String,
    /// The step of the agent, or the arguments of the tool.
    pub detail: String,
    /// The time that the step or the call has taken so far.
    pub elapsed: Duration,
}

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityRowKind {
    Agent,
    Call,
    /// A row that counts the agents that have no row.
    Omitted,
}

/// The maximum number of characters of a detail; the display cuts it to the width of the terminal.
const DETAIL_CHARS: usize = 200;

/// Returns at most `most` rows. Calls are left out first, then the last agents; a row counts omitted agents.
pub fn activity_rows(activity: &RunActivity, now: Instant, most: usize) -> Vec<ActivityRow> {
    let agents = activity.agents();
    let calls: usize = agents.iter().map(|agent| agent.calls.len()).sum();
    let with_calls = agents.len() + calls <= most;
    let shown = if with_calls || agents.len() <= most { agents.len() } else { most.saturating_sub(1) };
    let mut rows = Vec::new();
    for agent in &agents[..shown] {
        rows.push(agent_row(agent, now));
        if with_calls {
            rows.extend(agent.calls.iter().map(|call| call_row(agent.depth + 1, call, now)));
        }
    }
    let omitted = agents.len() - shown;
    if omitted > 0 && most > 0 {
        let (subject, elapsed) = (String::new(), Duration::ZERO);
        let detail = if shown == 0 { format!("{omitted} agents") } else { format!("and {omitted} more agents") };
        rows.push(ActivityRow { depth: 0, kind: ActivityRowKind::Omitted, subject, detail, elapsed });
    }
    rows
}

/// Returns the row of one agent at work, as if it were the only one.
pub fn row_of_agent(activity: &RunActivity, agent: &str, now: Instant) -> Option<ActivityRow> {
    let found = activity.agents().iter().find(|there| &*there.agent == agent)?;
    Some(ActivityRow { depth: 0, ..agent_row(found, now) })
}

fn agent_row(agent: &AgentActivity, now: Instant) -> ActivityRow {
    let mut detail = step_in_words(agent);
    // What the person has asked for is on the screen already.
    if agent.parent.is_some() && !agent.task.is_empty() {
        detail.push_str(&format!(" · {}", agent.task));
    }
    ActivityRow {
        depth: agent.depth,
        kind: ActivityRowKind::Agent,
        subject: name(&agent.agent),
        detail: one_line(&detail, DETAIL_CHARS),
        elapsed: now.saturating_duration_since(agent.since),
    }
}

fn step_in_words(agent: &AgentActivity) -> String {
    match &agent.step {
        AgentStep::Starting => "starting".into(),
        AgentStep::Waiting => "waiting for the model".into(),
        AgentStep::Thinking => "thinking".into(),
        AgentStep::Writing => "writing".into(),
        AgentStep::PreparingCall(tool) => format!("preparing a call of {tool}"),
        AgentStep::Delayed { detail, .. } => detail.clone(),
        AgentStep::Calling => match agent.calls.len() {
            0 => "waiting for the model".into(),
            1 => "calling a tool".into(),
            calls => format!("calling {calls} tools"),
        },
        AgentStep::Directing { step } => format!("step {}", step + 1),
        AgentStep::Asking { question } => format!("asking you: {question}"),
    }
}

fn call_row(depth: usize, call: &CallActivity, now: Instant) -> ActivityRow {
    let progress = call.progress.as_ref().map(|progress| {
        let of = progress.total.map_or(String::new(), |total| format!(" of {total}"));
        let message = progress.message.as_deref().map_or(String::new(), |message| format!(" {message}"));
        format!("{}{of}{message}", progress.done)
    });
    ActivityRow {
        depth,
        kind: ActivityRowKind::Call,
        subject: name(&call.tool),
        detail: one_line(&progress.unwrap_or_else(|| telling_argument(&call.arguments)), DETAIL_CHARS),
        elapsed: now.saturating_duration_since(call.since),
    }
}

/// Formats a duration as a person reads it while it grows: `7 s`, `1 min 05 s`, `2 h 07 min`. Less than a second is empty.
pub fn elapsed_in_words(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => String::new(),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cli::live::events_for_tests::started, event::Event};

    fn activity(agents: usize, calls: usize) -> RunActivity {
        let mut activity = RunActivity::default();
        for at in 0..agents {
            let agent = format!("a{at}");
            let task = if at == 1 { "look it up" } else { "" };
            activity.note(&started(&agent, (at > 0).then_some("a0"), "m", task));
            for call in 0..calls {
                activity.note(&Event::ToolStarted {
                    agent: agent.as_str().into(),
                    call: call.to_string(),
                    tool: "search\x1b[2J".into(),
                    origin: "p".into(),
                    arguments: "{\"q\":\n\"x\"}".into(),
                });
            }
        }
        activity
    }

    fn shown(activity: &RunActivity, most: usize) -> Vec<String> {
        let rows = activity_rows(activity, Instant::now(), most);
        rows.iter().map(|row| format!("{}{} {}", "  ".repeat(row.depth), row.subject, row.detail)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_omitted_calls_first_then_last_agents() {
        let two = activity(2, 1);
        let call = "search\\u{1b}[2J x";
        assert_eq!(
            shown(&two, 4),
            [
                "a0 calling a tool".to_owned(),
                format!("  {call}"),
                "  a1 calling a tool · look it up".into(),
                format!("    {call}")
            ]
        );
        assert_eq!(shown(&two, 3), ["a0 calling a tool", "  a1 calling a tool · look it up"]);
        assert_eq!(
            shown(&activity(5, 2), 3),
            ["a0 calling 2 tools", "  a1 calling 2 tools · look it up", " and 3 more agents"]
        );
        assert_eq!(shown(&activity(2, 0), 1), [" 2 agents"]);
        assert!(shown(&two, 0).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_agent_has_a_row_of_its_own() {
        let row = row_of_agent(&activity(3, 1), "a1", Instant::now()).unwrap();
        assert_eq!((row.depth, &*row.subject, &*row.detail), (0, "a1", "calling a tool · look it up"));
        assert_eq!(row_of_agent(&activity(3, 1), "nobody", Instant::now()), None);
    }

    #[test]
    fn growing_time_is_shown_in_two_units_at_most() {
        for (seconds, words) in [(0.9, ""), (1.0, "1 s"), (59.9, "59 s"), (65.0, "1 min 05 s"), (7_620.0, "2 h 07 min")]
        {
            assert_eq!(elapsed_in_words(Duration::from_secs_f64(seconds)), words);
        }
    }
}
