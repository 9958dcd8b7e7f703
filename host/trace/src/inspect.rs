//! Traces as logs of Inspect: an `EvalLog` of version 2 with one sample, which is the session.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::Write,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::{
    TraceError,
    assembler::TraceAssembler,
    chat_json::{inspect_arguments, inspect_error, inspect_messages},
    inspect_pool::{
        MessagePool, WrittenAttachments, arguments_with_attachments, visit_json, visit_message, with_attachments,
    },
    lines::TraceLines,
    spans::{CallSpan, RequestSpan, RunEnd, RunSpan, TracePart},
    trace::{Trace, TraceStepKind},
    trace_event::TraceEvent,
};
use shelly_core::{
    chat::{StopReason, Usage},
    files,
};
use shelly_session::SessionError;

/// Writes a trace as a log of Inspect. `open` opens the trace, which is read once for each part of the log: the overview,
/// the messages of the runs that a person started and of the members of their teams, the messages of all runs, the events,
/// and the long texts of all of them.
///
/// # Errors
///
/// [`TraceError`] if the session cannot be read or `out` cannot be written.
pub fn write_inspect(
    open: impl Fn() -> Result<TraceLines, SessionError>,
    out: &mut impl Write,
) -> Result<(), TraceError> {
    let trace = Trace::read(open()?)?;
    let overview = LogOverview::of(&trace);
    write!(out, "{{\"version\":2,\"status\":{},", json!(overview.status))?;
    for (key, value) in [("eval", overview.eval), ("plan", overview.plan), ("results", overview.results)] {
        write!(out, "\"{key}\":{value},")?;
    }
    write!(out, "\"stats\":{},", overview.stats)?;
    if let Some(error) = &overview.error {
        write!(out, "\"error\":{error},")?;
    }
    write!(out, "\"samples\":[{{{},\"messages\":[", overview.sample)?;
    let (mut is_first, mut last) = (true, None);
    let mut messages = RequestMessages::default();
    // The teams that a person started, and those that are members of them: a team asks its model only whom to choose.
    let mut teams = HashSet::new();
    let is_shown = |run: &RunSpan, teams: &HashSet<Arc<str>>| run.parent.as_ref().is_none_or(|id| teams.contains(id));
    for_each_part(open()?, |part| {
        if let TracePart::Began(run) = &part
            && run.model.is_empty()
            && is_shown(run, &teams)
        {
            teams.insert(Arc::clone(&run.id));
        }
        if let TracePart::Ended(run) = &part {
            teams.remove(&run.id);
            messages.end(run);
        }
        let TracePart::Request(request) = part else { return Ok(()) };
        let (input, reply) = messages.of(&request);
        if is_shown(&request.run, &teams) {
            last = Some(output(&request, &reply));
            for message in input.into_iter().chain(reply) {
                write!(out, "{}\n{}", comma(&mut is_first), with_attachments(message))?;
            }
        }
        Ok(())
    })?;
    let last = last.unwrap_or_else(|| json!({ "model": trace.header.model, "choices": [], "completion": "" }));
    write!(out, "],\"output\":{last},\"events_data\":{{\"messages\":[")?;
    (is_first, messages) = (true, RequestMessages::default());
    for_each_part(open()?, |part| {
        if let TracePart::Ended(run) = &part {
            messages.end(run);
        }
        let TracePart::Request(request) = part else { return Ok(()) };
        let (input, reply) = messages.of(&request);
        for message in input.into_iter().chain(reply) {
            write!(out, "{}\n{}", comma(&mut is_first), with_attachments(message))?;
        }
        Ok(())
    })?;
    write!(out, "],\"calls\":[]}},\"events\":[")?;
    let mut events = EventWriter::new(overview.began);
    is_first = true;
    for_each_part(open()?, |part| {
        for event in events.of(part) {
            write!(out, "{}\n{event}", comma(&mut is_first))?;
        }
        Ok(())
    })?;
    write!(out, "],\"attachments\":{{")?;
    write_attachments(open()?, out)?;
    writeln!(out, "}}}}]}}")?;
    Ok(())
}

/// Writes the long texts of all messages and arguments, once each.
fn write_attachments(lines: TraceLines, out: &mut impl Write) -> Result<(), TraceError> {
    let (mut is_first, mut messages) = (true, RequestMessages::default());
    let mut written = WrittenAttachments::default();
    for_each_part(lines, |part| {
        let attachments: Vec<_> = match part {
            TracePart::Request(request) => {
                let (input, reply) = messages.of(&request);
                input.into_iter().chain(reply).flat_map(|message| written.of(message, visit_message)).collect()
            }
            TracePart::Call(call) => written.of(inspect_arguments(&call.arguments).0, visit_json),
            TracePart::Ended(run) => {
                messages.end(&run);
                return Ok(());
            }
            TracePart::Began(_) | TracePart::Note(_) => return Ok(()),
        };
        for (name, text) in attachments {
            write!(out, "{}\n\"{name}\":{}", comma(&mut is_first), Value::from(text))?;
        }
        Ok(())
    })
}

fn for_each_part(
    lines: TraceLines,
    mut visit: impl FnMut(TracePart) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut assembler = TraceAssembler::default();
    for line in lines {
        if let Some(event) = TraceEvent::parse(&line?) {
            assembler.add(event).into_iter().try_for_each(&mut visit)?;
        }
    }
    assembler.finish().into_iter().try_for_each(visit)
}

fn comma(is_first: &mut bool) -> &'static str {
    if std::mem::take(is_first) { "" } else { "," }
}

/// The parts of a log that come before its samples.
struct LogOverview {
    status: &'static str,
    eval: Value,
    plan: Value,
    results: Value,
    stats: Value,
    error: Option<Value>,
    /// The members of the sample that come before its messages.
    sample: String,
    began: SystemTime,
}

impl LogOverview {
    fn of(trace: &Trace) -> Self {
        let header = &trace.header;
        let roots: Vec<_> = trace.roots().map(|at| &trace.runs[at].span).collect();
        let began = roots.iter().map(|run| run.started).min().unwrap_or(header.created);
        let ended = trace.runs.iter().map(|run| run.span.ended).max().unwrap_or(began);
        let (status, error) = match roots.last().map(|run| &run.end) {
            Some(RunEnd::Answered) => ("success", None),
            Some(RunEnd::Failed(error)) => ("error", Some(error.as_str())),
            Some(RunEnd::Open) | None => ("cancelled", None),
        };
        let error = error.map(|error| json!({ "message": error, "traceback": "", "traceback_ansi": "" }));
        let usage = usage_by_model(trace);
        let task = roots.first().map(|run| &*run.task).filter(|task| !task.is_empty()).unwrap_or(&header.title);
        let model = if header.model.is_empty() { "unknown" } else { &header.model };
        let mut sample = json!({
            "id": header.id,
            "epoch": 1,
            "input": task,
            "target": "",
            "metadata": { "agent": header.agent, "is_recorded": trace.is_recorded },
            "model_usage": usage,
            "started_at": date(began),
            "completed_at": date(ended),
            "total_time": ended.duration_since(began).unwrap_or_default().as_secs_f64(),
            "uuid": header.id,
        });
        if let Some(error) = &error {
            sample["error"] = error.clone();
        }
        let sample = sample.to_string();
        let sample = sample.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default().to_owned();
        Self {
            status,
            eval: json!({
                "eval_id": header.id,
                "run_id": header.id,
                "created": date(header.created),
                "task": header.agent,
                "task_id": header.id,
                "task_version": 0,
                "dataset": { "name": "session", "samples": 1, "sample_ids": [header.id] },
                "model": model,
                "config": {},
                "packages": { "shelly-host": header.host },
                "metadata": { "title": header.title },
            }),
            plan: json!({ "name": "plan", "steps": [{ "solver": header.agent, "params": {} }], "config": {} }),
            results: json!({
                "total_samples": 1, "completed_samples": u32::from(status == "success"), "scores": [],
            }),
            stats: json!({ "started_at": date(began), "completed_at": date(ended), "model_usage": usage }),
            error,
            sample,
            began,
        }
    }
}

fn usage_by_model(trace: &Trace) -> BTreeMap<&str, Value> {
    let mut sums: BTreeMap<&str, (Usage, Option<f64>)> = BTreeMap::new();
    for step in trace.runs.iter().flat_map(|run| &run.steps).filter(|step| step.kind == TraceStepKind::Request) {
        let (usage, usd) = sums.entry(&step.name).or_default();
        *usage += step.usage;
        if let Some(more) = step.usd {
            *usd = Some(usd.unwrap_or_default() + more);
        }
    }
    sums.into_iter().map(|(model, (usage, usd))| (model, model_usage(&usage, usd))).collect()
}

fn model_usage(usage: &Usage, usd: Option<f64>) -> Value {
    let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = *usage;
    json!({
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": usage.total(),
        "input_tokens_cache_read": cache_read_tokens,
        "input_tokens_cache_write": cache_write_tokens,
        "total_cost": usd,
    })
}

/// The tools of calls, by run and call id: results do not name them.
#[derive(Default)]
struct CalledTools(HashMap<Arc<str>, HashMap<String, String>>);

impl CalledTools {
    /// Notes the calls of a reply. Those of the reply before have their results.
    fn note(&mut self, request: &RequestSpan) {
        if let Some(output) = &request.output {
            let calls = output.tool_calls().map(|call| (call.id.clone(), call.name.clone())).collect();
            self.0.insert(Arc::clone(&request.run.id), calls);
        }
    }

    fn of(&self, run: &RunSpan, call: &str) -> Option<String> {
        self.0.get(&run.id)?.get(call).cloned()
    }
}

/// The messages of requests, one after the other.
#[derive(Default)]
struct RequestMessages(CalledTools);

impl RequestMessages {
    /// Returns the messages that came before the next request, and those of its reply.
    fn of(&mut self, request: &RequestSpan) -> (Vec<Value>, Vec<Value>) {
        let input = input_of(request, &self.0);
        self.0.note(request);
        (input, output_of(request, &self.0))
    }

    /// Forgets a run that has ended.
    fn end(&mut self, run: &RunSpan) {
        self.0.0.remove(&run.id);
    }
}

/// Returns the messages that came before a request. The names of their tools are in the reply before, so the caller notes a
/// request after this.
fn input_of(request: &RequestSpan, tools: &CalledTools) -> Vec<Value> {
    let messages = request.input.iter().enumerate().flat_map(|(at, message)| {
        let id = format!("{}.{}.{at}", request.run.id, request.step);
        inspect_messages(message, &id, |call| tools.of(&request.run, call))
    });
    messages.collect()
}

fn output_of(request: &RequestSpan, tools: &CalledTools) -> Vec<Value> {
    let id = format!("{}.{}.reply", request.run.id, request.step);
    let message =
        request.output.iter().flat_map(|message| inspect_messages(message, &id, |call| tools.of(&request.run, call)));
    message
        .map(|mut message| {
            message["model"] = request.model.clone().into();
            message
        })
        .collect()
}

/// Returns the output of a request with this reply.
fn output(request: &RequestSpan, reply: &[Value]) -> Value {
    let stop = stop_word(request.stop.as_ref());
    let choice = |message: &Value| json!({ "message": with_attachments(message.clone()), "stop_reason": stop });
    let choices: Vec<_> = reply.iter().map(choice).collect();
    // Inspect's library replaces no attachment here.
    let completion = request.output.as_ref().map(|output| output.text_content()).unwrap_or_default();
    json!({
        "model": request.model,
        "choices": choices,
        "completion": completion,
        "usage": model_usage(&request.usage, request.usd),
        "time": request.duration().as_secs_f64(),
    })
}

/// Makes the events of a sample.
struct EventWriter {
    began: SystemTime,
    messages: RequestMessages,
    pool: MessagePool,
    count: u64,
}

impl EventWriter {
    fn new(began: SystemTime) -> Self {
        Self { began, messages: RequestMessages::default(), pool: MessagePool::default(), count: 0 }
    }

    fn of(&mut self, part: TracePart) -> Vec<Value> {
        let event = match part {
            TracePart::Began(run) => {
                let mut event = self.event("span_begin", Some(&run.id), run.started);
                event["id"] = (&*run.id).into();
                event["type"] = "agent".into();
                event["name"] = (&*run.agent).into();
                if let Some(parent) = &run.parent {
                    event["parent_id"] = (&**parent).into();
                }
                event
            }
            TracePart::Ended(run) => {
                let mut event = self.event("span_end", Some(&run.id), run.ended);
                event["id"] = (&*run.id).into();
                self.messages.end(&run);
                self.pool.end(&run);
                event
            }
            TracePart::Request(request) => self.request(&request),
            TracePart::Call(call) => self.call(&call),
            TracePart::Note(note) => {
                let mut event = self.event("info", None, self.began);
                event["source"] = "shelly-host".into();
                event["data"] = note.into();
                event
            }
        };
        vec![event]
    }

    fn request(&mut self, request: &RequestSpan) -> Value {
        let (input, reply) = self.messages.of(request);
        let heard = self.pool.add(request, input.len(), reply.len());
        let mut event = self.event("model", Some(&request.run.id), request.started);
        event["model"] = request.model.clone().into();
        // All messages of each request would make the log grow with the square of its length.
        event["input"] = json!([]);
        event["input_refs"] = json!(heard);
        event["tools"] = json!([]);
        event["tool_choice"] = "auto".into();
        event["config"] = json!({});
        event["output"] = output(request, &reply);
        event["retries"] = request.retries.into();
        event["completed"] = date(request.ended).into();
        event["working_time"] = request.duration().as_secs_f64().into();
        if let Some(error) = &request.error {
            event["error"] = error.clone().into();
        }
        event
    }

    fn call(&mut self, call: &CallSpan) -> Value {
        let mut event = self.event("tool", Some(&call.run.id), call.started);
        event["type"] = "function".into();
        event["id"] = call.call.clone().into();
        event["function"] = call.tool.clone().into();
        event["arguments"] = arguments_with_attachments(inspect_arguments(&call.arguments).0);
        // Inspect's library replaces no attachment here.
        event["result"] = call.result.as_ref().map(|result| result.text()).unwrap_or_default().into();
        if let Some(ended) = call.ended {
            event["completed"] = date(ended).into();
            event["working_time"] = call.duration().as_secs_f64().into();
        }
        if call.is_error {
            event["error"] = inspect_error(call.reason.as_deref().unwrap_or_default());
        }
        event
    }

    fn event(&mut self, kind: &str, span: Option<&str>, time: SystemTime) -> Value {
        self.count += 1;
        let start = time.duration_since(self.began).unwrap_or(Duration::ZERO);
        json!({
            "event": kind,
            "uuid": format!("event-{}", self.count),
            "span_id": span,
            "timestamp": date(time),
            "working_start": start.as_secs_f64(),
        })
    }
}

fn stop_word(stop: Option<&StopReason>) -> &'static str {
    match stop {
        Some(StopReason::EndTurn | StopReason::StopSequence) => "stop",
        Some(StopReason::ToolCalls) => "tool_calls",
        Some(StopReason::MaxTokens) => "max_tokens",
        Some(StopReason::Refusal) => "content_filter",
        Some(StopReason::Other(_)) | None => "unknown",
    }
}

/// Returns a time as RFC 3339 with an offset, as Python reads it in each of its versions.
fn date(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_millis(files::writable_date(time.max(UNIX_EPOCH))).to_string();
    text.replace('Z', "+00:00")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::run_span;

    #[test]
    fn names_of_tools_are_forgotten_with_their_runs() {
        let mut messages = RequestMessages::default();
        for number in 0..1_000 {
            let run = run_span(&number.to_string(), RunEnd::Open);
            messages.0.0.insert(Arc::clone(&run.id), HashMap::from([("c".to_owned(), "t".to_owned())]));
            assert_eq!(messages.0.of(&run, "c").as_deref(), Some("t"));
            messages.end(&run);
        }
        assert!(messages.0.0.is_empty());
    }
}
