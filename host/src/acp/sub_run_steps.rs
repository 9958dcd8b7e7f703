use std::{collections::VecDeque, sync::Arc};

use serde_json::{Value, json};

use super::{
    session_update::{call_text, call_update},
    tool_display::one_line,
};
use crate::limits;

/// The newest steps of an agent that works for another one, as the content of a tool call.
pub(super) struct SubRunSteps {
    call: String,
    steps: VecDeque<String>,
    /// The number of steps that are not shown any more.
    earlier: usize,
}

impl SubRunSteps {
    /// Returns those of a run that begins.
    pub fn new(run: &str) -> Self {
        Self { call: format!("run/{run}"), steps: VecDeque::new(), earlier: 0 }
    }

    /// Returns the call that stands for the run.
    pub fn begun(&self, agent: &Arc<str>, task: &str) -> Value {
        json!({
            "sessionUpdate": "tool_call", "toolCallId": self.call, "title": one_line(&format!("agent {agent}: {task}")),
            "kind": "think", "status": "in_progress",
        })
    }

    /// Adds a step: the title of a call, or words of the agent. Returns the update.
    pub fn add(&mut self, step: &str) -> Value {
        self.steps.push_back(one_line(step));
        if self.steps.len() > limits::ACP_SUB_RUN_STEPS {
            self.steps.pop_front();
            self.earlier += 1;
        }
        call_update(&self.call, json!({"content": [call_text(&self.text())]}))
    }

    /// Returns the end of the call.
    pub fn ended(&self, error: Option<&str>) -> Value {
        let status = if error.is_some() { "failed" } else { "completed" };
        let text = match error {
            Some(error) => format!("{}failed: {error}", self.text()),
            None => self.text(),
        };
        match text.is_empty() {
            true => call_update(&self.call, json!({"status": status})),
            false => call_update(&self.call, json!({"status": status, "content": [call_text(&text)]})),
        }
    }

    fn text(&self) -> String {
        let earlier = match self.earlier {
            0 => String::new(),
            earlier => format!("({earlier} earlier steps)\n"),
        };
        self.steps.iter().fold(earlier, |text, step| format!("{text}- {step}\n"))
    }
}
