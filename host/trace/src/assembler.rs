//! Puts events together into spans.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    mem,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    spans::{CallSpan, RequestSpan, RunEnd, RunSpan, TracePart},
    trace_event::{TraceEvent, TraceEventKind},
};
use shelly_core::{
    agent::DELEGATE_TOOL,
    chat::{Message, Role, StopReason, Usage},
    error::cut,
    event::AGENT_ORIGIN,
    limits,
};

/// Puts the events of a session together into runs, requests and calls. It holds what has begun and not ended, and what came
/// into each conversation since its last request.
#[derive(Debug, Default)]
pub struct TraceAssembler {
    runs: HashMap<Arc<str>, OpenRun>,
    /// Hashes of the ids in use: a later process may begin with the same ones.
    used: HashSet<u64>,
    hasher: RandomState,
    /// The id in the trace of each open run whose id in the present stream differs from it.
    renamed: HashMap<Arc<str>, Arc<str>>,
    streams: u64,
    /// The runs that have begun.
    begun: u64,
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
            TraceEventKind::RunStarted { agent, configured, parent_call, depth, model, task, .. } => {
                if let Some(run) = run {
                    let parent = parent.map(|parent| self.known_as(parent));
                    let facts = RunBeginning { configured, agent, parent_call, depth, model, task };
                    self.begin(run, parent, now, facts);
                }
            }
            TraceEventKind::Warning { message } => {
                self.parts.push(TracePart::Note(cut(&message, limits::TRACE_TEXT_BYTES)));
            }
            TraceEventKind::Missed { count } => {
                self.parts.push(TracePart::Note(format!("{count} events are missing here")));
            }
            kind => {
                let Some(name) = run else { return mem::take(&mut self.parts) };
                let id = self.known_as(Arc::clone(&name));
                if let Some((id, mut run)) = self.runs.remove_entry(&id) {
                    run.last = now;
                    if run.add(kind, now, &mut self.parts) {
                        self.runs.insert(id, run);
                    } else {
                        self.renamed.remove(&name);
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
        if self.runs.len() >= limits::TRACE_OPEN_RUNS {
            let most = limits::TRACE_OPEN_RUNS;
            self.parts.push(TracePart::Note(format!("a run is left out: more than {most} are open at once")));
            return;
        }
        let mut unique = Arc::clone(&id);
        // Another process may have had a run of the same id.
        if !self.is_first_of_id(&unique) {
            unique = format!("{id}#{}.{}", self.streams, self.begun).into();
            self.is_first_of_id(&unique);
            self.renamed.insert(id, Arc::clone(&unique));
        }
        self.begun += 1;
        let RunBeginning { configured, agent, parent_call, depth, model, task } = facts;
        let configured = configured.unwrap_or_else(|| Arc::clone(&agent));
        let mut parent_run = parent.as_ref().and_then(|parent| self.runs.get_mut(parent));
        let parent_step = parent_run.as_mut().and_then(|parent| match &parent_call {
            Some(call) => parent.step_of_call(call),
            None => parent.delegating_step(&configured),
        });
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

    /// Returns `true` if no run has had this id, and notes it. Once the ids that are remembered are too many, it is `false`
    /// for each further run, which then has an id with a number.
    fn is_first_of_id(&mut self, id: &str) -> bool {
        self.used.len() < limits::TRACE_KNOWN_IDS && self.used.insert(self.hasher.hash_one(id))
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
    parent_call: Option<String>,
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
                let call = CallSpan {
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
                };
                self.open_call(call, parts);
            }
            TraceEventKind::ToolFinished { call, tool, is_error, reason, bytes, duration } => {
                self.ensure_call(&call, tool, (now, duration), parts);
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

    /// Returns the step of the newest call of this id, unless its result is in the conversation already.
    fn step_of_call(&self, call: &str) -> Option<u32> {
        self.calls.iter().rev().find(|there| there.call == call).map(|there| there.step)
    }

    /// Returns the step of the open call that has delegated a run of the agent of this name in the config, which begins now
    /// and does not name its call, as in traces of older hosts: of several calls, that with the fewest runs so far, since
    /// runs begin in the order of their calls.
    fn delegating_step(&mut self, configured: &str) -> Option<u32> {
        let is_agent_tool = |call: &CallSpan| call.origin.strip_prefix(AGENT_ORIGIN) == Some(configured);
        let is_delegation = |call: &CallSpan| call.tool == DELEGATE_TOOL;
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

    /// Adds a call. Of too many, one that waits for its result is complete without it.
    fn open_call(&mut self, call: CallSpan, parts: &mut Vec<TracePart>) {
        if self.calls.len() >= limits::TRACE_OPEN_CALLS {
            let at = self.calls.iter().position(|call| call.ended.is_some()).unwrap_or_default();
            parts.push(TracePart::Call(Box::new(self.calls.remove(at))));
        }
        self.calls.push(call);
    }

    /// Adds a call whose beginning is missing.
    fn ensure_call(
        &mut self,
        call: &str,
        tool: String,
        (now, duration): (SystemTime, Duration),
        parts: &mut Vec<TracePart>,
    ) {
        if self.calls.iter().any(|open| open.call == call) {
            return;
        }
        let (run, step) = (Arc::clone(&self.span), self.next_step());
        let call = CallSpan {
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
        };
        self.open_call(call, parts);
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
        self.delegated.clear();
        parts.extend(self.calls.drain(..).map(|call| TracePart::Call(Box::new(call))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(run: &str, kind: TraceEventKind) -> TraceEvent {
        TraceEvent { sequence: 1, time: None, run: Some(run.into()), parent: None, kind }
    }

    fn started() -> TraceEventKind {
        TraceEventKind::RunStarted {
            agent: "a".into(),
            configured: None,
            parent_agent: None,
            parent_call: None,
            depth: 0,
            model: String::new(),
            task: String::new(),
        }
    }

    fn finished() -> TraceEventKind {
        TraceEventKind::RunFinished {
            error: None,
            iterations: 1,
            usage: Usage::default(),
            of_children: Usage::default(),
            duration: Duration::ZERO,
            usd: None,
            of_children_usd: None,
        }
    }

    fn called(call: usize) -> TraceEventKind {
        let (tool, origin, arguments) = ("t".into(), String::new(), String::new());
        TraceEventKind::ToolStarted { call: call.to_string(), tool, origin, arguments }
    }

    #[test]
    fn remembered_ids_are_bounded_and_runs_stay_apart() {
        let mut assembler = TraceAssembler::default();
        let mut run = |name: &str| {
            let began = assembler.add(event(name, started()));
            let [TracePart::Began(span)] = &began[..] else { panic!("{began:?}") };
            let ended = assembler.add(event(name, finished()));
            assert!(matches!(&ended[..], [TracePart::Ended(ended)] if ended.id == span.id), "{ended:?}");
            Arc::clone(&span.id)
        };
        for number in 0..limits::TRACE_KNOWN_IDS {
            let name = number.to_string();
            assert_eq!(*run(&name), *name);
        }
        let (one, other) = (run("new"), run("new"));
        assert!(one != other && *one != *"new", "{one} {other}");
        assert!(run("7").starts_with("7#"), "it is known");
        assert_eq!((assembler.used.len(), assembler.renamed.len()), (limits::TRACE_KNOWN_IDS, 0));
    }

    #[test]
    fn open_runs_are_bounded() {
        let mut assembler = TraceAssembler::default();
        for number in 0..limits::TRACE_OPEN_RUNS {
            let began = assembler.add(event(&number.to_string(), started()));
            assert!(matches!(&began[..], [TracePart::Began(_)]), "{began:?}");
        }
        let left_out = assembler.add(event("more", started()));
        assert!(matches!(&left_out[..], [TracePart::Note(note)] if note.contains("left out")), "{left_out:?}");
        assert!(assembler.add(event("more", finished())).is_empty());
        assert_eq!(assembler.add(event("0", finished())).len(), 1);
        assert!(matches!(&assembler.add(event("more", started()))[..], [TracePart::Began(_)]));
    }

    #[test]
    fn open_calls_of_a_run_are_bounded() {
        let mut assembler = TraceAssembler::default();
        assembler.add(event("r", started()));
        for call in 0..limits::TRACE_OPEN_CALLS {
            assert!(assembler.add(event("r", called(call))).is_empty());
        }
        let (is_error, reason, bytes, duration) = (false, None, 0, Duration::ZERO);
        let (call, tool) = ("7".into(), "t".into());
        let ended = TraceEventKind::ToolFinished { call, tool, is_error, reason, bytes, duration };
        assert!(assembler.add(event("r", ended)).is_empty(), "it waits for its result");
        for (more, complete) in [(limits::TRACE_OPEN_CALLS, "7"), (limits::TRACE_OPEN_CALLS + 1, "0")] {
            let parts = assembler.add(event("r", called(more)));
            assert!(matches!(&parts[..], [TracePart::Call(call)] if call.call == complete), "{parts:?}");
        }
    }
}
