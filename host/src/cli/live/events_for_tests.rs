//! Events of runs, for the tests of this folder.

use std::{sync::Arc, time::Duration};

use crate::{
    chat::{Message, Role, Usage},
    event::Event,
    model::ReplyDelta,
};

/// A run has begun. Only a team has an empty model.
pub fn started(agent: &str, parent: Option<&str>, model: &str, task: &str) -> Event {
    Event::RunStarted {
        agent: agent.into(),
        configured: agent.into(),
        parent_agent: parent.map(Into::into),
        parent_call: None,
        depth: 0,
        prefix: "".into(),
        model: model.into(),
        task: task.into(),
    }
}

/// A run of two turns has ended.
pub fn finished(agent: &str, error: Option<&str>) -> Event {
    Event::RunFinished {
        agent: agent.into(),
        error: error.map(str::to_owned),
        iterations: 2,
        usage: Usage::default(),
        of_children: Usage::default(),
        duration: Duration::from_millis(1_500),
    }
}

/// A piece of a reply has arrived.
pub fn text(agent: &str, text: &str) -> Event {
    Event::ModelDelta { agent: agent.into(), delta: ReplyDelta::Text(text.into()) }
}

/// A reply is complete.
pub fn message(agent: &str, text: &str) -> Event {
    let message = Message::text(Role::Assistant, agent, text);
    Event::MessageAdded { agent: agent.into(), role: Role::Assistant, message: Some(Arc::new(message)) }
}

/// A reply was cut off, and is asked for again.
pub fn reply_failed(agent: &str) -> Event {
    Event::ModelFailed { agent: agent.into(), model: "m".into(), reason: "cut".into(), again: true }
}

/// A call of the tool `read` has begun.
pub fn call_started(agent: &str, call: &str, arguments: &str) -> Event {
    let (tool, origin, arguments) = ("read".into(), "files".into(), arguments.into());
    Event::ToolStarted { agent: agent.into(), call: call.into(), tool, origin, arguments }
}

/// A call has ended after 20 ms, with a reason if it failed.
pub fn call_finished(agent: &str, call: &str, reason: Option<&str>) -> Event {
    Event::ToolFinished {
        agent: agent.into(),
        call: call.into(),
        tool: "read".into(),
        is_error: reason.is_some(),
        reason: reason.map(str::to_owned),
        bytes: 3,
        duration: Duration::from_millis(20),
    }
}
