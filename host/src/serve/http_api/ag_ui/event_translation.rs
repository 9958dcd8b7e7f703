use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use super::ag_ui_event::{AG_UI_VERSION, AgUiEvent, AgUiOutcome, AgUiStateChange};
use crate::{
    chat::{Message, Role},
    error::cut,
    event::{Event, StreamEvent},
    limits,
    serve::{
        hosted_runs::{HostedRunOutcome, RunSnapshot},
        http_api::{
            conversations::{AnswerPiece, SaidText},
            problem::Problem,
        },
    },
};

/// Translates the events of one run into those of the protocol. Whatever has begun is ended before the last event.
pub struct AgUiTranslation {
    thread: String,
    run: String,
    /// The id of the run at the host.
    hosted: Arc<str>,
    session: Option<String>,
    said: SaidText,
    /// The number of messages that have begun.
    messages: usize,
    text: Option<String>,
    thought: Option<String>,
    /// The message of the agent to which its tool calls belong.
    parent: Option<String>,
    /// The arguments of calls that have not begun, by call id.
    arguments: BTreeMap<String, String>,
    /// The calls without a result: their ids, and what is known of their results.
    unanswered: Vec<(String, String)>,
    /// The runs of other agents that have begun and not ended: their ids, and the names of their steps.
    steps: Vec<(Arc<str>, String)>,
    questions: Vec<(u64, Value)>,
}

impl AgUiTranslation {
    /// Returns the translation of a run that has begun; `thread` and `run` are the ids that its client has chosen.
    pub fn new(thread: String, run: String, begun: &RunSnapshot) -> Self {
        Self {
            thread,
            run,
            hosted: Arc::clone(&begun.id),
            session: begun.session.clone(),
            said: SaidText::default(),
            messages: 0,
            text: None,
            thought: None,
            parent: None,
            arguments: BTreeMap::new(),
            unanswered: Vec::new(),
            steps: Vec::new(),
            questions: Vec::new(),
        }
    }

    /// Returns the first events. The state is that of the interface, with the run under the key `shelly`.
    pub fn begin(&self, mut state: Map<String, Value>) -> Vec<AgUiEvent> {
        let of_run = json!({ "run": &*self.hosted, "session": self.session, "questions": [] });
        state.insert("shelly".into(), of_run);
        let (thread_id, run_id) = (self.thread.clone(), self.run.clone());
        vec![
            AgUiEvent::RunStarted { thread_id, run_id, protocol_version: AG_UI_VERSION },
            AgUiEvent::StateSnapshot { snapshot: Value::Object(state) },
        ]
    }

    /// Translates an event.
    pub fn take(&mut self, event: &StreamEvent) -> Vec<AgUiEvent> {
        let mut events = Vec::new();
        match self.said.take(&self.hosted, event) {
            Some(AnswerPiece::Text(text)) => self.say(&text, &mut events),
            Some(AnswerPiece::Thinking(text)) => self.think(text, &mut events),
            None if event.run.as_ref() == Some(&self.hosted) => self.take_own(&event.event, &mut events),
            None => self.take_other(event, &mut events),
        }
        events
    }

    /// Translates an event of the agent of the run.
    fn take_own(&mut self, event: &Event, events: &mut Vec<AgUiEvent>) {
        match event {
            Event::ModelStarted { .. } => {
                self.close(events);
                self.parent = None;
                self.answer_all(events);
            }
            Event::ModelFailed { .. } | Event::ModelFinished { .. } => self.close(events),
            Event::MessageAdded { role: Role::Assistant, message: Some(message), .. } => {
                let calls = message.tool_calls().map(|call| (call.id.clone(), call.arguments.clone()));
                self.arguments = calls.collect();
            }
            Event::MessageAdded { role: Role::Tool, message: Some(message), .. } => self.answer(message, events),
            Event::ToolStarted { call, tool, arguments, .. } => {
                self.close(events);
                let arguments = self.arguments.remove(call).unwrap_or_else(|| arguments.clone());
                let delta = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
                let (tool_call_id, parent_message_id) = (call.clone(), self.parent.clone());
                events.extend([
                    AgUiEvent::ToolCallStart { tool_call_id, tool_call_name: tool.clone(), parent_message_id },
                    AgUiEvent::ToolCallArgs { tool_call_id: call.clone(), delta },
                    AgUiEvent::ToolCallEnd { tool_call_id: call.clone() },
                ]);
                self.unanswered.push((call.clone(), "the call has not ended".into()));
            }
            Event::ToolFinished { call, is_error, reason, .. } => {
                let known = match (is_error, reason) {
                    (true, Some(reason)) => format!("failed: {reason}"),
                    (true, None) => "failed".into(),
                    (false, _) => "done".into(),
                };
                self.unanswered.iter_mut().filter(|(id, _)| id == call).for_each(|(_, words)| words.clone_from(&known));
            }
            other => self.take_question(other, events),
        }
    }

    /// Translates an event of an agent that works for the run.
    fn take_other(&mut self, event: &StreamEvent, events: &mut Vec<AgUiEvent>) {
        match (&event.event, &event.run) {
            (Event::RunStarted { agent, .. }, Some(run)) => {
                let step_name = format!("{agent} ({run})");
                self.steps.push((Arc::clone(run), step_name.clone()));
                events.push(AgUiEvent::StepStarted { step_name });
            }
            (Event::RunFinished { .. }, Some(run)) => {
                let ended = self.steps.extract_if(.., |(id, _)| *id == *run);
                events.extend(ended.map(|(_, step_name)| AgUiEvent::StepFinished { step_name }));
            }
            (other, _) => self.take_question(other, events),
        }
    }

    /// Translates an event about a question of any agent.
    fn take_question(&mut self, event: &Event, events: &mut Vec<AgUiEvent>) {
        match event {
            Event::QuestionAsked { agent, id, question } => {
                self.questions.push((*id, json!({ "id": id, "agent": &**agent, "question": question })));
            }
            Event::QuestionAnswered { id, .. } => self.questions.retain(|(open, _)| open != id),
            _ => return,
        }
        let value = self.questions.iter().map(|(_, question)| question.clone()).collect();
        events.push(AgUiEvent::StateDelta {
            delta: vec![AgUiStateChange { op: "replace", path: "/shelly/questions", value }],
        });
    }

    /// Returns the last events of a run. Of its whole answer they have the part that was not said.
    pub fn end(&mut self, run: &RunSnapshot, answer: Option<&str>) -> Vec<AgUiEvent> {
        let mut events = Vec::new();
        if let Some(rest) = answer.and_then(|answer| self.said.rest(answer)) {
            self.say(&rest, &mut events);
        }
        self.close(&mut events);
        self.answer_all(&mut events);
        events.extend(self.steps.drain(..).map(|(_, step_name)| AgUiEvent::StepFinished { step_name }));
        let usage = vec![run.usage().into()];
        let finished = |outcome, usage| AgUiEvent::RunFinished {
            thread_id: self.thread.clone(),
            run_id: self.run.clone(),
            result: json!({ "run": &*self.hosted, "session": self.session }),
            outcome,
            usage,
        };
        let last = match &run.outcome {
            Some(HostedRunOutcome::Completed { .. }) => finished(None, usage),
            Some(HostedRunOutcome::Cancelled) => finished(Some(AgUiOutcome::Cancelled), usage),
            Some(HostedRunOutcome::Failed { error, .. }) => {
                let problem = Problem::of_report(error);
                AgUiEvent::RunError { message: problem.sentence(), code: problem.code().into(), usage }
            }
            Some(HostedRunOutcome::Interrupted) | None => {
                let message = "the server is stopping, and the run was interrupted".into();
                AgUiEvent::RunError { message, code: "interrupted".into(), usage }
            }
        };
        events.push(last);
        events
    }

    fn say(&mut self, text: &str, events: &mut Vec<AgUiEvent>) {
        self.close_thought(events);
        let message_id = match &self.text {
            Some(open) => open.clone(),
            None => {
                let message_id = self.new_message();
                (self.text, self.parent) = (Some(message_id.clone()), Some(message_id.clone()));
                events.push(AgUiEvent::TextMessageStart { message_id: message_id.clone(), role: "assistant" });
                message_id
            }
        };
        // The text of each turn is a message of its own, and needs no break before it.
        let is_first = matches!(events.last(), Some(AgUiEvent::TextMessageStart { .. }));
        let delta = if is_first { text.trim_start_matches('\n') } else { text };
        if !delta.is_empty() {
            events.push(AgUiEvent::TextMessageContent { message_id, delta: delta.to_owned() });
        }
    }

    fn think(&mut self, delta: String, events: &mut Vec<AgUiEvent>) {
        self.close_text(events);
        let message_id = match &self.thought {
            Some(open) => open.clone(),
            None => {
                let message_id = self.new_message();
                self.thought = Some(message_id.clone());
                events.push(AgUiEvent::ReasoningStart { message_id: message_id.clone() });
                events.push(AgUiEvent::ReasoningMessageStart { message_id: message_id.clone(), role: "reasoning" });
                message_id
            }
        };
        events.push(AgUiEvent::ReasoningMessageContent { message_id, delta });
    }

    /// Sends the results of calls that were told of.
    fn answer(&mut self, message: &Message, events: &mut Vec<AgUiEvent>) {
        for result in message.tool_results() {
            let Some(at) = self.unanswered.iter().position(|(id, _)| *id == result.call_id) else { continue };
            let (call, _) = self.unanswered.remove(at);
            let content = cut(&result.text(), limits::SERVE_TOOL_RESULT_CHARS);
            events.push(self.result(call, content));
        }
    }

    /// Ends calls whose results are withheld: without a result, an interface would take them for its own.
    fn answer_all(&mut self, events: &mut Vec<AgUiEvent>) {
        for (call, words) in std::mem::take(&mut self.unanswered) {
            events.push(self.result(call, words));
        }
    }

    fn result(&mut self, tool_call_id: String, content: String) -> AgUiEvent {
        AgUiEvent::ToolCallResult { message_id: self.new_message(), tool_call_id, content, role: "tool" }
    }

    fn close(&mut self, events: &mut Vec<AgUiEvent>) {
        self.close_text(events);
        self.close_thought(events);
    }

    fn close_text(&mut self, events: &mut Vec<AgUiEvent>) {
        events.extend(self.text.take().map(|message_id| AgUiEvent::TextMessageEnd { message_id }));
    }

    fn close_thought(&mut self, events: &mut Vec<AgUiEvent>) {
        if let Some(message_id) = self.thought.take() {
            events.push(AgUiEvent::ReasoningMessageEnd { message_id: message_id.clone() });
            events.push(AgUiEvent::ReasoningEnd { message_id });
        }
    }

    fn new_message(&mut self) -> String {
        self.messages += 1;
        format!("{}-{}", self.hosted, self.messages)
    }
}
