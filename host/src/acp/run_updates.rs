//! Turns the events of a run into updates of its conversation.
//!
//! The words of the agent that the person talks to, and those of the members of a team, are the conversation; their tool
//! calls are its tool calls. Each run of an agent that works for them is one tool call more, whose content are the newest
//! steps of that agent.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    call_result::{raw_value, result_content},
    calls_in_progress::{CallInProgress, CallsInProgress},
    diff_content::diff_content,
    session_update::{call_text, call_update, location, notice, with_members},
    speaker_text::SpeakerText,
    sub_run_steps::SubRunSteps,
    tool_display::{kind_of, places_of, title_of},
};
use crate::{
    chat::{Message, ReplyDelta, Role, ToolResult},
    event::{Event, FileDifference, StreamEvent},
    limits,
    session::Secrets,
};

/// The facts that decide how the events of one run are shown.
pub(super) struct UpdateOptions {
    /// The folder of the project.
    pub root: PathBuf,
    /// The credentials that an editor is not sent.
    pub secrets: Secrets,
    /// `true` if the editor shows notices that belong to no message.
    pub has_notices: bool,
    /// `true` if a team runs: the person talks to its members.
    pub is_team: bool,
    /// The context window of the model, if it is known.
    pub window: Option<u64>,
}

/// Turns the events of a run into updates.
pub(super) struct RunUpdates {
    options: UpdateOptions,
    /// The run that the person has started.
    root_run: Option<Arc<str>>,
    runs: HashMap<Arc<str>, ShownRun>,
    /// The calls that are not finished, by their ids in the protocol.
    calls: HashMap<String, EditorCall>,
    /// The whole arguments of calls that have not begun.
    arguments: HashMap<String, String>,
    in_progress: CallsInProgress,
    /// The newest reply of the conversation that was shown whole.
    last_reply: Option<String>,
}

enum ShownRun {
    Speaker(Box<SpeakerText>),
    Helper(SubRunSteps),
}

/// A tool call that the editor was told of.
struct EditorCall {
    /// The compared texts of the files that it has changed.
    diffs: Vec<Value>,
    locations: Vec<Value>,
    hides_arguments: bool,
    last_progress: Option<Instant>,
}

impl EditorCall {
    /// Returns the compared texts of its files, and this content after them.
    fn content_with(&self, content: Value) -> Vec<Value> {
        self.diffs.iter().cloned().chain([content]).collect()
    }
}

impl RunUpdates {
    pub fn new(options: UpdateOptions, in_progress: CallsInProgress) -> Self {
        let (runs, calls, arguments) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { options, root_run: None, runs, calls, arguments, in_progress, last_reply: None }
    }

    /// Returns the newest reply of the conversation that was shown whole.
    pub fn last_reply(&self) -> Option<&str> {
        self.last_reply.as_deref()
    }

    /// Returns the updates for an event.
    pub fn note(&mut self, event: &StreamEvent) -> Vec<Value> {
        let run = event.run.as_ref().or(self.root_run.as_ref()).cloned().unwrap_or_default();
        match &event.event {
            Event::RunStarted { agent, task, .. } => self.begin_run(&run, event.parent.as_ref(), agent, task),
            Event::RunFinished { error, .. } => self.end_run(&run, error.as_deref()),
            Event::ModelDelta { delta, .. } => match (self.runs.get_mut(&run), delta) {
                (Some(ShownRun::Speaker(speaker)), ReplyDelta::Text(piece)) => speaker.say(piece),
                (Some(ShownRun::Speaker(speaker)), ReplyDelta::Thinking(piece)) => speaker.think(piece),
                _ => Vec::new(),
            },
            Event::ModelFailed { again: true, .. } => match self.runs.get_mut(&run) {
                Some(ShownRun::Speaker(speaker)) => speaker.drop_reply(),
                _ => Vec::new(),
            },
            Event::ModelFinished { usage, .. } => self.usage(&run, usage.total()),
            Event::MessageAdded { agent, role: Role::Assistant, message: Some(message) } => {
                self.end_reply(&run, agent, message)
            }
            Event::MessageAdded { agent, role: Role::Tool, message: Some(message) } => {
                message.tool_results().filter_map(|result| self.end_call_with(agent, result)).collect()
            }
            Event::ToolStarted { agent, call, tool, arguments, .. } => {
                self.begin_call(&run, agent, (call, tool), arguments)
            }
            Event::ToolProgress { agent, call, done, total, message } => {
                let total = total.map_or(String::new(), |total| format!("/{total}"));
                let message = message.as_deref().unwrap_or_default();
                let text = self.options.secrets.clean_text(&format!("{message} ({done}{total})"));
                self.progress(&call_id(agent, call), text.trim()).into_iter().collect()
            }
            Event::FileChange { agent, call, difference: Some(difference), .. } => {
                self.change_file(&call_id(agent, call), difference).into_iter().collect()
            }
            Event::ToolFinished { agent, call, is_error, reason, .. } => {
                self.finish_call(&call_id(agent, call), *is_error, reason.as_deref()).into_iter().collect()
            }
            Event::QuestionAsked { id, .. } => {
                self.in_progress.note_question(*id);
                Vec::new()
            }
            Event::Warning { message } | Event::Overspent { message, .. } => vec![self.warning(message)],
            Event::EffectFailed { effect: name, reason, skipped: true, .. }
            | Event::MiddlewareFailed { middleware: name, reason, skipped: true, .. } => {
                vec![self.warning(&format!("`{name}` failed; continuing without it: {reason}"))]
            }
            _ => Vec::new(),
        }
    }

    /// Returns a warning for the person.
    pub fn warning(&self, text: &str) -> Value {
        notice(&self.options.secrets.clean_text(text), self.options.has_notices)
    }

    fn begin_run(&mut self, run: &Arc<str>, parent: Option<&Arc<str>>, agent: &Arc<str>, task: &str) -> Vec<Value> {
        let is_root = self.root_run.is_none();
        if is_root {
            self.root_run = Some(Arc::clone(run));
        }
        if is_root || self.options.is_team && parent == self.root_run.as_ref() {
            let name = (self.options.is_team && !is_root).then(|| Arc::clone(agent));
            let speaker = SpeakerText::new(&self.options.secrets, name);
            self.runs.insert(Arc::clone(run), ShownRun::Speaker(Box::new(speaker)));
            return Vec::new();
        }
        let task = self.options.secrets.clean_text(task);
        let steps = SubRunSteps::new(run);
        let begun = steps.begun(agent, &task);
        self.runs.insert(Arc::clone(run), ShownRun::Helper(steps));
        vec![begun]
    }

    fn end_run(&mut self, run: &Arc<str>, error: Option<&str>) -> Vec<Value> {
        match self.runs.remove(run) {
            Some(ShownRun::Speaker(mut speaker)) => speaker.flush(),
            Some(ShownRun::Helper(steps)) => {
                let error = error.map(|error| self.options.secrets.clean_text(error));
                vec![steps.ended(error.as_deref())]
            }
            None => Vec::new(),
        }
    }

    /// Takes a reply that is complete. It is shown now if no piece of it was.
    fn end_reply(&mut self, run: &Arc<str>, agent: &Arc<str>, message: &Message) -> Vec<Value> {
        let text = message.text_content();
        let clean = self.options.secrets.clean_text(&text);
        match self.runs.get_mut(run) {
            Some(ShownRun::Speaker(speaker)) => {
                let mut updates = speaker.end_reply(&clean);
                self.last_reply = (!text.trim().is_empty()).then_some(text);
                for call in message.tool_calls() {
                    let id = call_id(agent, &call.id);
                    match self.calls.get(&id) {
                        Some(shown) if shown.hides_arguments => {}
                        Some(_) => {
                            let input = raw_value(&self.options.secrets, &call.arguments);
                            updates.push(call_update(&id, json!({"rawInput": input})));
                        }
                        None => drop(self.arguments.insert(id, call.arguments.clone())),
                    }
                }
                updates
            }
            Some(ShownRun::Helper(steps)) if !clean.trim().is_empty() => vec![steps.add(&clean)],
            Some(ShownRun::Helper(_)) | None => Vec::new(),
        }
    }

    fn begin_call(
        &mut self,
        run: &Arc<str>,
        agent: &Arc<str>,
        (call, tool): (&str, &str),
        arguments: &str,
    ) -> Vec<Value> {
        let id = call_id(agent, call);
        let whole = self.arguments.remove(&id);
        // The event of a tool that hides its arguments has none of them.
        let hides_arguments = arguments.is_empty();
        let input = match hides_arguments {
            true => Value::Null,
            false => raw_value(&self.options.secrets, whole.as_deref().unwrap_or(arguments)),
        };
        let title = title_of(tool, &input);
        let kind = kind_of(tool);
        match self.runs.get_mut(run) {
            Some(ShownRun::Helper(steps)) => return vec![steps.add(&title)],
            Some(ShownRun::Speaker(_)) | None => {}
        }
        let locations: Vec<_> = places_of(&self.options.root, &input).iter().map(|path| location(path, None)).collect();
        let mut update = json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": "in_progress",
        });
        if !locations.is_empty() {
            update = with_members(update, json!({"locations": locations}));
        }
        if !input.is_null() {
            update = with_members(update, json!({"rawInput": input}));
        }
        self.in_progress.begin(CallInProgress { id: id.clone(), agent: Arc::clone(agent), tool: tool.to_owned() });
        let shown = EditorCall { diffs: Vec::new(), locations, hides_arguments, last_progress: None };
        self.calls.insert(id, shown);
        vec![update]
    }

    fn progress(&mut self, id: &str, text: &str) -> Option<Value> {
        let call = self.calls.get_mut(id)?;
        let now = Instant::now();
        if call.last_progress.is_some_and(|last| now.duration_since(last) < limits::ACP_PROGRESS_PAUSE) {
            return None;
        }
        call.last_progress = Some(now);
        let content = call.content_with(call_text(text));
        Some(call_update(id, json!({ "content": content })))
    }

    fn change_file(&mut self, id: &str, difference: &FileDifference) -> Option<Value> {
        let call = self.calls.get_mut(id)?;
        let text = self.options.secrets.clean_text(&difference.text);
        let (content, at) = diff_content(&FileDifference { path: difference.path.clone(), text });
        let room = limits::ACP_CALL_DIFFS.saturating_sub(call.diffs.len());
        call.diffs.extend(content.into_iter().take(room));
        if call.locations.len() < limits::ACP_CALL_DIFFS && !call.locations.contains(&at) {
            call.locations.push(at);
        }
        Some(call_update(id, json!({"content": call.diffs, "locations": call.locations})))
    }

    fn finish_call(&mut self, id: &str, is_error: bool, reason: Option<&str>) -> Option<Value> {
        self.in_progress.end(id);
        let call = self.calls.get(id)?;
        let status = if is_error { "failed" } else { "completed" };
        let mut fields = json!({"status": status});
        if let Some(reason) = reason {
            let content = call.content_with(call_text(&self.options.secrets.clean_text(reason)));
            fields = with_members(fields, json!({ "content": content }));
        }
        Some(call_update(id, fields))
    }

    /// Takes the result of a call as the model is shown it.
    fn end_call_with(&mut self, agent: &Arc<str>, result: &ToolResult) -> Option<Value> {
        let id = call_id(agent, &result.call_id);
        let call = self.calls.remove(&id)?;
        self.in_progress.end(&id);
        let status = if result.is_error { "failed" } else { "completed" };
        let fields = result_content(&self.options.secrets, result, call.diffs);
        Some(call_update(&id, with_members(fields, json!({"status": status}))))
    }

    fn usage(&self, run: &Arc<str>, used: u64) -> Vec<Value> {
        match self.options.window {
            Some(size) if !self.options.is_team && self.root_run.as_ref() == Some(run) => {
                vec![json!({"sessionUpdate": "usage_update", "used": used, "size": size})]
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the id of a call in the protocol. Calls of different agents may have the same id.
pub(super) fn call_id(agent: &str, call: &str) -> String {
    format!("{agent}/{call}")
}

#[cfg(test)]
mod tests;
