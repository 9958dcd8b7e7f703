//! Puts events together into spans.

use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    spans::{CallSpan, RequestSpan, RunEnd, RunSpan, TracePart},
    trace_event::{TraceEvent, TraceEventKind},
};
use shelly_core::{
    chat::{Message, Role, StopReason, Usage},
    error::cut,
    limits,
};

/// The tool that delegates tasks to agents that its arguments name.
const DELEGATE: &str = "delegate";
/// The origin of a tool that is an agent, before the agent's name.
const AGENT_ORIGIN: &str = "agent:";

/// Puts the events of a session together into runs, requests and calls. It holds what has begun and not ended, and what came
/// into each conversation since its last request.
#[derive(Debug, Default)]
pub struct TraceAssembler {
    runs: HashMap<Arc<str>, OpenRun>,
    /// The ids in use: a later process may begin with the same ones.
    used: HashSet<Arc<str>>,
    /// The id in the trace for each id of the present stream that differs from it.
    renamed: HashMap<Arc<str>, Arc<str>>,
    streams: u64,
    /// The time of the newest event.
    now: Option<SystemTime>,
    parts: Vec<TracePart>,
}

/// A run that has not ended.
#[derive(Debug)]
struct OpenRun {
    span: Arc<RunSpan>,
    steps: u32,
    /// The number of turns that have begun.
    turns: u32,
    last: SystemTime,
    input: Vec<Arc<Message>>,
    request: Option<OpenRequest>,
    calls: Vec<CallSpan>,
    /// The number of runs that calls have delegated so far, by the step of the call.
    delegated: HashMap<u32, usize>,
    /// The arguments of the calls of the newest reply, by call id.
    arguments: HashMap<String, String>,
}

#[derive(Debug)]
struct OpenRequest {
    iteration: u32,
    step: u32,
    started: SystemTime,
    input: Vec<Arc<Message>>,
    retries: u32,
    error: Option<String>,
    /// Set once the reply is complete; its message follows.
    reply: Option<CompleteReply>,
}

#[derive(Debug)]
struct CompleteReply {
    model: String,
    stop: StopReason,
    usage: Usage,
    usd: Option<f64>,
    ended: SystemTime,
}

impl TraceAssembler {
    /// Adds the next event, and returns the parts that are complete now.
    pub fn add(&mut self, event: TraceEvent) -> Vec<TracePart> {
        let now = event.time.or(self.now).unwrap_or(UNIX_EPOCH);
        self.now = Some(now);
        let TraceEvent { run, parent, kind, .. } = event;
        match kind {
            TraceEventKind::StreamStarted { .. } => {
                self.end_all();
                self.streams += 1;
                self.renamed.clear();
            }
            TraceEventKind::RunStarted { agent, configured, depth, model, task, .. } => {
                if let Some(run) = run {
                    let parent = parent.map(|parent| self.known_as(parent));
                    self.begin(run, parent, now, RunBeginning { configured, agent, depth, model, task });
                }
            }
            TraceEventKind::Warning { message } => {
                self.parts.push(TracePart::Note(cut(&message, limits::TRACE_TEXT_BYTES)));
            }
            TraceEventKind::Missed { count } => {
                self.parts.push(TracePart::Note(format!("{count} events are missing here")));
            }
            kind => {
                let id = run.map(|run| self.known_as(run));
                if let Some((id, mut run)) = id.and_then(|id| self.runs.remove_entry(&id)) {
                    run.last = now;
                    if run.add(kind, now, &mut self.parts) {
                        self.runs.insert(id, run);
                    }
                }
            }
        }
        mem::take(&mut self.parts)
    }

    /// Ends everything that is open, and returns it.
    pub fn finish(mut self) -> Vec<TracePart> {
        self.end_all();
        self.parts
    }

    /// Returns the id in the trace of a run that events of the present stream call so.
    fn known_as(&self, run: Arc<str>) -> Arc<str> {
        self.renamed.get(&run).cloned().unwrap_or(run)
    }

    fn begin(&mut self, id: Arc<str>, parent: Option<Arc<str>>, now: SystemTime, facts: RunBeginning) {
        let mut unique = Arc::clone(&id);
        // Another process may have had a run of the same id.
        if !self.used.insert(Arc::clone(&unique)) {
            unique = format!("{id}#{}.{}", self.streams, self.used.len()).into();
            self.used.insert(Arc::clone(&unique));
            self.renamed.insert(id, Arc::clone(&unique));
        }
        let RunBeginning { configured, agent, depth, model, task } = facts;
        let configured = configured.unwrap_or_else(|| Arc::clone(&agent));
        let mut parent_run = parent.as_ref().and_then(|parent| self.runs.get_mut(parent));
        let parent_step = parent_run.as_mut().and_then(|parent| parent.delegating_step(&configured));
        let root = parent_run.as_ref().map_or_else(|| Arc::clone(&unique), |parent| Arc::clone(&parent.span.root));
        let span = Arc::new(RunSpan {
            id: Arc::clone(&unique),
            // A parent that is not known would leave the run without a place.
            parent: parent_run.map(|parent| Arc::clone(&parent.span.id)),
            parent_step,
            root,
            configured,
            agent,
            depth,
            model,
            task: cut(&task, limits::TRACE_TEXT_BYTES),
            started: now,
            ended: now,
            end: RunEnd::Open,
            iterations: 0,
            usage: Usage::default(),
            of_children: Usage::default(),
            usd: None,
            of_children_usd: None,
        });
        self.parts.push(TracePart::Began(Arc::clone(&span)));
        let run = OpenRun {
            span,
            steps: 0,
            turns: 0,
            last: now,
            input: Vec::new(),
            request: None,
            calls: Vec::new(),
            delegated: HashMap::new(),
            arguments: HashMap::new(),
        };
        self.runs.insert(unique, run);
    }

    /// Ends all runs, the deepest first.
    fn end_all(&mut self) {
        let mut open: Vec<_> = mem::take(&mut self.runs).into_values().collect();
        open.sort_by(|a, b| (b.span.depth, &b.span.id).cmp(&(a.span.depth, &a.span.id)));
        for mut run in open {
            run.flush(&mut self.parts);
            let ended = RunSpan { ended: run.last, iterations: run.turns, ..RunSpan::clone(&run.span) };
            self.parts.push(TracePart::Ended(Arc::new(ended)));
        }
    }
}

/// The facts of an event that begins a run.
struct RunBeginning {
    configured: Option<Arc<str>>,
    agent: Arc<str>,
    depth: u32,
    model: String,
    task: String,
}

impl OpenRun {
    /// Adds an event; returns `false` if it is the end of the run.
    fn add(&mut self, kind: TraceEventKind, now: SystemTime, parts: &mut Vec<TracePart>) -> bool {
        match kind {
            TraceEventKind::ModelStarted { iteration } => {
                self.flush(parts);
                self.request = Some(self.begin_request(iteration, now));
            }
            TraceEventKind::ModelFailed { reason, again } => {
                let request = self.request_at(now);
                request.retries += u32::from(again);
                request.error = Some(cut(&reason, limits::TRACE_TEXT_BYTES));
            }
            TraceEventKind::ModelFinished { iteration, model, stop, usage, duration, usd } => {
                if self.request.as_ref().is_none_or(|request| request.reply.is_some()) {
                    // Its beginning was not recorded.
                    self.flush(parts);
                    self.request = Some(self.begin_request(iteration, now.checked_sub(duration).unwrap_or(now)));
                }
                let request = self.request_at(now);
                request.error = None;
                request.reply = Some(CompleteReply { model, stop, usage, usd, ended: now });
            }
            TraceEventKind::MessageAdded { role, message } => self.add_message(role, message, parts),
            TraceEventKind::ToolStarted { call, tool, origin, arguments } => {
                let arguments = self.arguments.remove(&call).unwrap_or(arguments);
                let (run, step) = (Arc::clone(&self.span), self.next_step());
                self.calls.push(CallSpan {
                    run,
                    step,
                    call,
                    tool,
                    origin,
                    arguments,
                    started: now,
                    ended: None,
                    is_error: false,
                    reason: None,
                    bytes: 0,
                    result: None,
                });
            }
            TraceEventKind::ToolFinished { call, tool, is_error, reason, bytes, duration } => {
                self.ensure_call(&call, tool, now, duration);
                if let Some(open) = self.calls.iter_mut().find(|open| open.call == call && open.ended.is_none()) {
                    open.ended = Some(now);
                    open.is_error = is_error;
                    open.reason = reason.map(|reason| cut(&reason, limits::TRACE_TEXT_BYTES));
                    open.bytes = bytes;
                }
            }
            TraceEventKind::RunFinished { error, iterations, usage, of_children, usd, of_children_usd, .. } => {
                self.flush(parts);
                let end = error.map_or(RunEnd::Answered, |error| RunEnd::Failed(cut(&error, limits::TRACE_TEXT_BYTES)));
                let span = RunSpan::clone(&self.span);
                let ended = RunSpan { ended: now, end, iterations, usage, of_children, usd, of_children_usd, ..span };
                parts.push(TracePart::Ended(Arc::new(ended)));
                return false;
            }
            _ => {}
        }
        true
    }

    /// Returns the step of the open call that has delegated a run of the agent of this name in the config, which begins now:
    /// of several calls, that with the fewest runs so far, since runs begin in the order of their calls.
    fn delegating_step(&mut self, configured: &str) -> Option<u32> {
        let is_agent_tool = |call: &CallSpan| call.origin.strip_prefix(AGENT_ORIGIN) == Some(configured);
        let is_delegation = |call: &CallSpan| call.tool == DELEGATE;
        let fewest = |is_candidate: &dyn Fn(&CallSpan) -> bool| {
            let candidates = self.calls.iter().filter(|call| call.ended.is_none() && is_candidate(call));
            candidates.map(|call| call.step).min_by_key(|step| self.delegated.get(step).copied().unwrap_or_default())
        };
        let step = fewest(&is_agent_tool).or_else(|| fewest(&is_delegation))?;
        *self.delegated.entry(step).or_default() += 1;
        Some(step)
    }

    fn add_message(&mut self, role: Role, message: Option<Arc<Message>>, parts: &mut Vec<TracePart>) {
        let is_reply = role == Role::Assistant && self.request.as_ref().is_some_and(|open| open.reply.is_some());
        if is_reply {
            if let Some(message) = &message {
                self.arguments = message.tool_calls().map(|call| (call.id.clone(), call.arguments.clone())).collect();
            }
            self.end_request(message, parts);
            return;
        }
        let Some(message) = message else { return };
        for result in message.tool_results() {
            if let Some(at) = self.calls.iter().position(|call| call.call == result.call_id && call.ended.is_some()) {
                let call = CallSpan { result: Some(result.clone()), ..self.calls.remove(at) };
                parts.push(TracePart::Call(Box::new(call)));
            }
        }
        self.input.push(message);
    }

    fn begin_request(&mut self, iteration: u32, started: SystemTime) -> OpenRequest {
        self.turns = self.turns.max(iteration.saturating_add(1));
        let (step, input) = (self.next_step(), mem::take(&mut self.input));
        OpenRequest { iteration, step, started, input, retries: 0, error: None, reply: None }
    }

    /// Returns the open request; one whose beginning is missing begins now.
    fn request_at(&mut self, now: SystemTime) -> &mut OpenRequest {
        let request = match self.request.take() {
            Some(request) => request,
            None => self.begin_request(0, now),
        };
        self.request.insert(request)
    }

    /// Adds a call whose beginning is missing.
    fn ensure_call(&mut self, call: &str, tool: String, now: SystemTime, duration: Duration) {
        if self.calls.iter().any(|open| open.call == call) {
            return;
        }
        let (run, step) = (Arc::clone(&self.span), self.next_step());
        self.calls.push(CallSpan {
            run,
            step,
            call: call.to_owned(),
            tool,
            origin: String::new(),
            arguments: self.arguments.remove(call).unwrap_or_default(),
            started: now.checked_sub(duration).unwrap_or(now),
            ended: None,
            is_error: false,
            reason: None,
            bytes: 0,
            result: None,
        });
    }

    fn next_step(&mut self) -> u32 {
        self.steps = self.steps.saturating_add(1);
        self.steps - 1
    }

    fn end_request(&mut self, output: Option<Arc<Message>>, parts: &mut Vec<TracePart>) {
        let Some(request) = self.request.take() else { return };
        let OpenRequest { iteration, step, started, input, retries, error, reply } = request;
        let run = Arc::clone(&self.span);
        let (model, stop, usage, usd, ended) = match reply {
            Some(CompleteReply { model, stop, usage, usd, ended }) => (model, Some(stop), usage, usd, ended),
            None => (self.span.model.clone(), None, Usage::default(), None, self.last),
        };
        let error = error.or_else(|| stop.is_none().then(|| "there is no reply".to_owned()));
        parts.push(TracePart::Request(Box::new(RequestSpan {
            run,
            step,
            iteration,
            model,
            started,
            ended,
            retries,
            stop,
            usage,
            usd,
            error,
            input,
            output,
        })));
    }

    /// Ends the request and the calls that are open.
    fn flush(&mut self, parts: &mut Vec<TracePart>) {
        self.end_request(None, parts);
        parts.extend(self.calls.drain(..).map(|call| TracePart::Call(Box::new(call))));
    }
}
