//! Traces in the JSON encoding of OTLP, as collectors of OpenTelemetry take them. The names of spans and attributes are
//! those of the semantic conventions for generative AI.

use std::{
    io::{self, Write},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::{
    TraceError,
    assembler::TraceAssembler,
    chat_json::{short, span_messages},
    lines::TraceLines,
    spans::{CallSpan, RequestSpan, RunEnd, RunSpan, TracePart},
    trace_event::TraceEvent,
};
use shelly_core::{
    chat::{StopReason, Usage},
    digest::Sha256Digest,
    hex,
};

/// The version of the conventions.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";
const INTERNAL: u32 = 1;
const CLIENT: u32 = 3;
const FAILED: u32 = 2;

/// Writes a trace as one `ExportTraceServiceRequest`. Each run that a person started is a trace of its own; ids follow from
/// the session and the run, so that a trace that is written twice is one to a collector that knows ids.
///
/// # Errors
///
/// [`TraceError`] if the session cannot be read or `out` cannot be written.
pub fn write_otlp(mut lines: TraceLines, out: &mut impl Write) -> Result<(), TraceError> {
    let header = lines.header().clone();
    let resource = json!({
        "attributes": [
            text("service.name", "shelly-host"),
            text("service.version", &header.host),
        ]
    });
    let scope = json!({ "name": "shelly-host", "version": env!("CARGO_PKG_VERSION") });
    write!(out, "{{\"resourceSpans\":[{{\"resource\":{resource},\"scopeSpans\":[{{\"scope\":{scope},\"spans\":[")?;
    let mut spans = SpanWriter { session: &header.id, out: &mut *out, is_first: true };
    let mut assembler = TraceAssembler::default();
    for line in lines.by_ref() {
        if let Some(event) = TraceEvent::parse(&line?) {
            assembler.add(event).into_iter().try_for_each(|part| spans.write(part))?;
        }
    }
    assembler.finish().into_iter().try_for_each(|part| spans.write(part))?;
    writeln!(out, "],\"schemaUrl\":\"{SCHEMA_URL}\"}}],\"schemaUrl\":\"{SCHEMA_URL}\"}}]}}")?;
    Ok(())
}

struct SpanWriter<'a, W> {
    session: &'a str,
    out: &'a mut W,
    is_first: bool,
}

impl<W: Write> SpanWriter<'_, W> {
    fn write(&mut self, part: TracePart) -> io::Result<()> {
        let span = match part {
            TracePart::Ended(run) => self.run(&run),
            TracePart::Request(request) => self.request(&request),
            TracePart::Call(call) => self.call(&call),
            TracePart::Began(_) | TracePart::Note(_) => return Ok(()),
        };
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        write!(self.out, "{comma}\n{span}")
    }

    fn run(&self, run: &RunSpan) -> Value {
        let mut attributes = vec![
            text("gen_ai.operation.name", "invoke_agent"),
            text("gen_ai.agent.name", &run.configured),
            text("gen_ai.conversation.id", self.session),
            text("shelly.run.id", &run.id),
            int("shelly.run.depth", run.depth.into()),
            int("shelly.run.iterations", run.iterations.into()),
        ];
        if !run.model.is_empty() {
            attributes.push(text("gen_ai.request.model", &run.model));
        }
        attributes.extend(tokens(&run.usage));
        attributes.extend(run.usd.map(|usd| double("shelly.cost.usd", usd)));
        if !run.task.is_empty() {
            attributes.push(text("shelly.run.task", &run.task));
        }
        let error = match &run.end {
            RunEnd::Answered => None,
            RunEnd::Failed(error) => Some(("run_failed", error.as_str())),
            RunEnd::Open => Some(("run_interrupted", "the run has not ended")),
        };
        let parent = run.parent.as_deref().map(|parent| self.span_id(parent, run.parent_step.unwrap_or(RUN)));
        let name = format!("invoke_agent {}", run.configured);
        let times = (run.started, run.ended);
        self.span(run, self.span_id(&run.id, RUN), parent, (name, INTERNAL), times, attributes, error)
    }

    fn request(&self, request: &RequestSpan) -> Value {
        let run = &request.run;
        let mut attributes = vec![
            text("gen_ai.operation.name", "chat"),
            text("gen_ai.agent.name", &run.configured),
            text("gen_ai.conversation.id", self.session),
            text("shelly.run.id", &run.id),
            int("shelly.iteration", request.iteration.into()),
        ];
        let asked = if run.model.is_empty() { &request.model } else { &run.model };
        attributes.push(text("gen_ai.request.model", asked));
        if let Some(stop) = &request.stop {
            let reasons = json!({ "arrayValue": { "values": [{ "stringValue": stop_word(stop) }] } });
            attributes.push(text("gen_ai.response.model", &request.model));
            attributes.push(json!({ "key": "gen_ai.response.finish_reasons", "value": reasons }));
        }
        attributes.extend(tokens(&request.usage));
        attributes.extend(request.usd.map(|usd| double("shelly.cost.usd", usd)));
        if request.retries > 0 {
            attributes.push(int("shelly.request.retries", request.retries.into()));
        }
        if !request.input.is_empty() {
            let messages = span_messages(request.input.iter().map(|message| &**message));
            attributes.push(text("gen_ai.input.messages", &messages));
        }
        if let Some(output) = &request.output {
            attributes.push(text("gen_ai.output.messages", &span_messages([&**output])));
        }
        let error = request.error.as_deref().map(|error| ("model_failed", error));
        let (name, times) = (format!("chat {}", request.model), (request.started, request.ended));
        let parent = Some(self.span_id(&run.id, RUN));
        self.span(run, self.span_id(&run.id, request.step), parent, (name, CLIENT), times, attributes, error)
    }

    fn call(&self, call: &CallSpan) -> Value {
        let run = &call.run;
        let mut attributes = vec![
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.name", &call.tool),
            text("gen_ai.tool.type", "function"),
            text("gen_ai.tool.call.id", &call.call),
            text("gen_ai.tool.call.arguments", &short(&call.arguments)),
            text("gen_ai.agent.name", &run.configured),
            text("gen_ai.conversation.id", self.session),
            text("shelly.run.id", &run.id),
            int("shelly.tool.result.bytes", call.bytes),
        ];
        if !call.origin.is_empty() {
            attributes.push(text("shelly.tool.origin", &call.origin));
        }
        if let Some(result) = &call.result {
            attributes.push(text("gen_ai.tool.call.result", &short(&result.text())));
        }
        let error = match call.ended {
            None => Some(("call_interrupted", "there is no result")),
            Some(_) => call.is_error.then(|| ("tool_failed", call.reason.as_deref().unwrap_or_default())),
        };
        let (name, times) = (format!("execute_tool {}", call.tool), (call.started, call.ended.unwrap_or(call.started)));
        let parent = Some(self.span_id(&run.id, RUN));
        self.span(run, self.span_id(&run.id, call.step), parent, (name, INTERNAL), times, attributes, error)
    }

    #[allow(clippy::too_many_arguments, reason = "a span has that many parts, and each caller knows all of them")]
    fn span(
        &self,
        run: &RunSpan,
        id: String,
        parent: Option<String>,
        (name, kind): (String, u32),
        (started, ended): (SystemTime, SystemTime),
        mut attributes: Vec<Value>,
        error: Option<(&str, &str)>,
    ) -> Value {
        attributes.extend(error.map(|(kind, _)| text("error.type", kind)));
        let mut span = json!({
            "traceId": hex::encode(&self.digest(&[b"trace", run.root.as_bytes()])[..16]),
            "spanId": id,
            "name": short(&name),
            "kind": kind,
            "startTimeUnixNano": nanoseconds(started),
            "endTimeUnixNano": nanoseconds(ended.max(started)),
            "attributes": attributes,
            "status": match error {
                Some((_, message)) => json!({ "code": FAILED, "message": short(message) }),
                None => json!({}),
            },
        });
        if let Some(parent) = parent {
            span["parentSpanId"] = parent.into();
        }
        span
    }

    /// Returns the id of the span of a run, or of a step of it.
    fn span_id(&self, run: &str, step: u32) -> String {
        hex::encode(&self.digest(&[b"span", run.as_bytes(), &step.to_be_bytes()])[..8])
    }

    fn digest(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut bytes = self.session.as_bytes().to_vec();
        for part in parts {
            bytes.push(0);
            bytes.extend_from_slice(part);
        }
        Sha256Digest::of(bytes).0
    }
}

/// Stands for the run itself in the place of the number of a step.
const RUN: u32 = u32::MAX;

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Returns a whole number, which the encoding writes as text.
fn int(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": i64::try_from(value).unwrap_or(i64::MAX).to_string() } })
}

fn double(key: &str, value: f64) -> Value {
    json!({ "key": key, "value": { "doubleValue": value } })
}

/// Returns the attributes of tokens. The input includes what a cache held.
fn tokens(usage: &Usage) -> Vec<Value> {
    if usage.total() == 0 {
        return Vec::new();
    }
    let input = usage.input_tokens.saturating_add(usage.cache_read_tokens).saturating_add(usage.cache_write_tokens);
    let mut tokens =
        vec![int("gen_ai.usage.input_tokens", input), int("gen_ai.usage.output_tokens", usage.output_tokens)];
    for (key, count) in [
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
    ] {
        if count > 0 {
            tokens.push(int(key, count));
        }
    }
    tokens
}

fn stop_word(stop: &StopReason) -> &str {
    match stop {
        StopReason::EndTurn | StopReason::StopSequence => "stop",
        StopReason::ToolCalls => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
        StopReason::Other(word) => word,
    }
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
