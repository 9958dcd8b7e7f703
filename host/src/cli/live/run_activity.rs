//! The present state of a run, as a person wants to see it: which agents work, for whom, and on what.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    chat::Usage,
    event::{Event, ModelWait},
    limits,
    model::ReplyDelta,
};

/// The agents of a run that are at work, in the order in which a tree of them is drawn: each agent is followed by those that
/// work for it.
#[derive(Debug, Default)]
pub struct RunActivity {
    agents: Vec<AgentActivity>,
    /// The usage of completed replies of all agents.
    usage: Usage,
    turns: u32,
}

/// An agent at work.
#[derive(Debug)]
pub struct AgentActivity {
    /// Its instance name.
    pub agent: Arc<str>,
    /// The agent that it works for.
    pub parent: Option<Arc<str>>,
    /// Its distance from the root of the tree.
    pub depth: usize,
    /// The newest message that it was given, cut for display.
    pub task: String,
    pub step: AgentStep,
    /// The start of the step.
    pub since: Instant,
    /// Tool calls under way, in the order in which they began.
    pub calls: VecDeque<CallActivity>,
    /// Completed tool calls.
    pub calls_done: usize,
    /// Completed turns.
    pub turns: u32,
}

/// The present step of an agent.
#[derive(Debug, PartialEq, Eq)]
pub enum AgentStep {
    /// The agent has not asked its model yet.
    Starting,
    /// Its model has not begun to reply.
    Waiting,
    /// Its model is thinking.
    Thinking,
    /// Its model is writing text.
    Writing,
    /// Its model is writing a call of this tool.
    PreparingCall(String),
    /// A request does not go to the model now, for the reason in `detail`.
    Delayed { wait: ModelWait, detail: String },
    /// Tools are being called.
    Calling,
    /// Members of the team work.
    Directing { step: u32 },
    /// A person is asked.
    Asking { question: String },
}

/// A tool call under way.
#[derive(Debug)]
pub struct CallActivity {
    pub call: String,
    pub tool: String,
    /// The arguments, cut for display; empty if they are hidden.
    pub arguments: String,
    pub since: Instant,
    pub progress: Option<CallProgress>,
}

/// The progress that a tool has reported.
#[derive(Debug, Clone, PartialEq)]
pub struct CallProgress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// A completed tool call.
#[derive(Debug, PartialEq)]
pub struct CompletedCall {
    pub agent: Arc<str>,
    pub tool: String,
    pub arguments: String,
    pub duration: Duration,
    /// The reason for the failure, if the call failed.
    pub failure: Option<String>,
}

impl RunActivity {
    /// Updates the state from an event. Returns the tool call that has ended with it.
    pub fn note(&mut self, event: &Event) -> Option<CompletedCall> {
        match event {
            Event::RunStarted { agent, parent_agent, task, .. } => self.begin(agent, parent_agent.as_ref(), task),
            Event::RunFinished { agent, .. } => self.end(agent),
            Event::ModelStarted { agent, .. } => self.step(agent, AgentStep::Waiting),
            Event::ModelDelta { agent, delta } => match delta {
                ReplyDelta::Text(_) => self.step(agent, AgentStep::Writing),
                ReplyDelta::Thinking(_) => self.step(agent, AgentStep::Thinking),
                ReplyDelta::ToolCall(tool) => self.step(agent, AgentStep::PreparingCall(tool.clone())),
                ReplyDelta::Usage(_) => {}
            },
            Event::ModelWaits { agent, wait, detail, .. } => {
                self.step(agent, AgentStep::Delayed { wait: *wait, detail: detail.clone() });
            }
            Event::ModelFinished { agent, usage, .. } => {
                self.usage += *usage;
                self.turns += 1;
                if let Some(there) = self.agent(agent) {
                    there.turns += 1;
                }
            }
            Event::ToolStarted { agent, call, tool, arguments, .. } => {
                self.step(agent, AgentStep::Calling);
                if let Some(there) = self.agent(agent) {
                    there.begin_call(call, tool, arguments);
                }
            }
            Event::ToolProgress { agent, call, done, total, message } => {
                if let Some(under_way) = self.agent(agent).and_then(|there| there.call(call)) {
                    let (done, total, message) = (*done, *total, message.clone());
                    under_way.progress = Some(CallProgress { done, total, message });
                }
            }
            Event::ToolFinished { agent, call, tool, is_error, reason, duration, .. } => {
                let arguments = self.agent(agent).map(|there| there.end_call(call)).unwrap_or_default();
                let failure = is_error.then(|| reason.clone().unwrap_or_default());
                let (agent, tool, duration) = (Arc::clone(agent), tool.clone(), *duration);
                return Some(CompletedCall { agent, tool, arguments, duration, failure });
            }
            Event::TeamStep { agent, step, done: false, .. } => {
                self.step(agent, AgentStep::Directing { step: *step });
            }
            Event::QuestionAsked { agent, question, .. } => {
                self.step(agent, AgentStep::Asking { question: question.clone() });
            }
            Event::QuestionAnswered { agent, .. } => {
                let is_calling = self.agent(agent).is_some_and(|there| !there.calls.is_empty());
                self.step(agent, if is_calling { AgentStep::Calling } else { AgentStep::Waiting });
            }
            _ => {}
        }
        None
    }

    /// Returns the agents at work, each followed by those that work for it.
    pub fn agents(&self) -> &[AgentActivity] {
        &self.agents
    }

    /// Returns the agent that this one works for.
    pub fn parent_of(&self, agent: &str) -> Option<&Arc<str>> {
        self.find(agent)?.parent.as_ref()
    }

    /// Returns the number of calls that an agent at work has completed.
    pub fn calls_done(&self, agent: &str) -> usize {
        self.find(agent).map_or(0, |there| there.calls_done)
    }

    /// Returns the usage of all completed replies.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the number of completed replies.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    fn find(&self, name: &str) -> Option<&AgentActivity> {
        self.agents.iter().find(|there| &*there.agent == name)
    }

    fn agent(&mut self, name: &str) -> Option<&mut AgentActivity> {
        self.agents.iter_mut().find(|there| &*there.agent == name)
    }

    fn begin(&mut self, agent: &Arc<str>, parent: Option<&Arc<str>>, task: &str) {
        // A member of a team works again and again under one name.
        self.end(agent);
        if self.agents.len() >= limits::AGENTS_SHOWN {
            return;
        }
        let above = parent.and_then(|parent| self.agents.iter().position(|there| there.agent == *parent));
        let depth = above.map_or(0, |above| self.agents[above].depth + 1);
        // Behind all that work for its parent.
        let at = above.map_or(self.agents.len(), |above| {
            let others = self.agents[above + 1..].iter().take_while(|there| there.depth >= depth);
            above + 1 + others.count()
        });
        let activity = AgentActivity {
            agent: Arc::clone(agent),
            parent: parent.cloned(),
            depth,
            task: task.to_owned(),
            step: AgentStep::Starting,
            since: Instant::now(),
            calls: VecDeque::new(),
            calls_done: 0,
            turns: 0,
        };
        self.agents.insert(at, activity);
    }

    fn end(&mut self, agent: &str) {
        self.agents.retain(|there| &*there.agent != agent);
    }

    fn step(&mut self, agent: &str, step: AgentStep) {
        if let Some(there) = self.agent(agent)
            && there.step != step
        {
            (there.step, there.since) = (step, Instant::now());
        }
    }
}

impl AgentActivity {
    fn begin_call(&mut self, call: &str, tool: &str, arguments: &str) {
        // The calls that run side by side are bounded; a call without an end must not make the list grow.
        if self.calls.len() >= limits::CALLS_SHOWN {
            self.calls.pop_front();
        }
        self.calls.push_back(CallActivity {
            call: call.to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.to_owned(),
            since: Instant::now(),
            progress: None,
        });
    }

    /// Ends a call. Returns its arguments.
    fn end_call(&mut self, call: &str) -> String {
        self.calls_done += 1;
        let at = self.calls.iter().position(|under_way| under_way.call == call);
        at.and_then(|at| self.calls.remove(at)).map(|ended| ended.arguments).unwrap_or_default()
    }

    fn call(&mut self, call: &str) -> Option<&mut CallActivity> {
        self.calls.iter_mut().find(|under_way| under_way.call == call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::live::events_for_tests::{call_finished, call_started, finished, started, text};

    fn tree(activity: &RunActivity) -> Vec<(&str, usize)> {
        activity.agents().iter().map(|there| (&*there.agent, there.depth)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn children_follow_their_parent_in_order() {
        let mut activity = RunActivity::default();
        for event in [
            started("lead", None, "m", ""),
            started("a", Some("lead"), "m", ""),
            started("b", Some("lead"), "m", ""),
            started("a1", Some("a"), "m", ""),
            started("lost", Some("nobody"), "m", ""),
        ] {
            activity.note(&event);
        }
        assert_eq!(tree(&activity), [("lead", 0), ("a", 1), ("a1", 2), ("b", 1), ("lost", 0)]);
        activity.note(&finished("a", None));
        activity.note(&started("c", Some("lead"), "m", ""));
        assert_eq!(tree(&activity), [("lead", 0), ("a1", 2), ("b", 1), ("c", 1), ("lost", 0)]);
        activity.note(&started("b", Some("lead"), "m", ""));
        assert_eq!(tree(&activity)[3], ("b", 1), "begun again: one entry");
    }

    #[tokio::test(start_paused = true)]
    async fn step_time_begins_when_the_step_changes() {
        let mut activity = RunActivity::default();
        activity.note(&started("ada", None, "m", ""));
        tokio::time::advance(Duration::from_secs(3)).await;
        activity.note(&text("ada", "x"));
        let since = activity.agents()[0].since;
        tokio::time::advance(Duration::from_secs(3)).await;
        activity.note(&text("ada", "x"));
        assert_eq!((&activity.agents()[0].step, activity.agents()[0].since), (&AgentStep::Writing, since));
    }

    #[tokio::test(start_paused = true)]
    async fn completed_call_has_its_arguments_and_failure() {
        let mut activity = RunActivity::default();
        for event in [started("ada", None, "m", ""), call_started("ada", "1", "of 1"), call_started("ada", "2", "of 2")]
        {
            assert_eq!(activity.note(&event), None);
        }
        let completed = activity.note(&call_finished("ada", "1", Some("no such file"))).unwrap();
        assert_eq!((&*completed.arguments, completed.failure.as_deref()), ("of 1", Some("no such file")));
        assert_eq!(activity.agents()[0].calls.len(), 1);
        let unknown = activity.note(&call_finished("nobody", "9", None)).unwrap();
        assert_eq!((&*unknown.arguments, unknown.failure), ("", None), "an agent that is not shown");
    }

    #[tokio::test(start_paused = true)]
    async fn activity_is_bounded_whatever_is_reported() {
        let mut activity = RunActivity::default();
        for at in 0..limits::AGENTS_SHOWN + 9 {
            activity.note(&started(&format!("agent {at}"), None, "m", ""));
        }
        for at in 0..limits::CALLS_SHOWN + 9 {
            activity.note(&call_started("agent 0", &at.to_string(), ""));
        }
        assert_eq!(
            (activity.agents().len(), activity.agents()[0].calls.len()),
            (limits::AGENTS_SHOWN, limits::CALLS_SHOWN)
        );
    }
}
