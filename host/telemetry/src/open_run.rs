//! One run that has begun: its span, and those of its requests and calls.

use std::{collections::HashMap, sync::Arc};

use opentelemetry_proto::tonic::{common::v1::KeyValue, trace::v1::span::SpanKind};
use shelly_core::{
    chat::{Message, Part, ReplyDelta, Role, StopReason, Usage},
    error::cut,
    event::{Event, NO_ORIGIN, PluginCallOutcome, SpanContext},
    limits,
};

use crate::{
    attribute, conventions,
    message_content::{MessageList, shown_text},
    metric_set::{COST, Labels, OPERATION_DURATION, TOKEN_USAGE},
    observed_run::dollars,
    recorded::{RecordedTelemetry, RecordingContext},
    run_event::span_event,
    span_draft::{EventMark, SpanDraft},
};

/// The error of a run that was cancelled.
const CANCELLED: &str = "the run was cancelled";

/// A run that has begun and not yet ended.
pub(crate) struct OpenRunSpan {
    span: SpanDraft,
    agent: Arc<str>,
    model: String,
    chat: Option<OpenChat>,
    /// The last request, whose reply has come, while the message of the reply is awaited. Only with content.
    replied: Option<(SpanDraft, String)>,
    tools: Vec<OpenTool>,
    /// Calls that have ended, while the messages with their results are awaited. Only with content.
    answered: Vec<OpenTool>,
    /// The messages since the last request.
    input: MessageList,
    /// The messages of the first request.
    given: Option<KeyValue>,
    /// The last reply.
    output: Option<KeyValue>,
    /// The arguments of the calls in the last reply, by call id. Only with content.
    arguments: HashMap<String, String>,
    /// The cost of the requests so far, in dollars; `None` if no price is known.
    cost: Option<f64>,
}

/// A request to a model.
struct OpenChat {
    span: SpanDraft,
    /// `true` once a piece of the reply has arrived.
    has_begun: bool,
}

/// A tool call.
struct OpenTool {
    span: SpanDraft,
    call: String,
    tool: String,
    origin: String,
}

impl OpenRunSpan {
    /// Begins a run with its span, which has no attributes yet.
    pub fn begin(mut span: SpanDraft, agent: &Arc<str>, model: &str, depth: u32, cx: &RecordingContext) -> Self {
        span.set(attribute::text(conventions::OPERATION_NAME, conventions::INVOKE_AGENT));
        span.set(attribute::number(conventions::RUN_DEPTH, depth.into()));
        let mut run = Self {
            span,
            agent: Arc::clone(agent),
            model: model.to_owned(),
            chat: None,
            replied: None,
            tools: Vec::new(),
            answered: Vec::new(),
            input: MessageList::default(),
            given: None,
            output: None,
            arguments: HashMap::new(),
            cost: None,
        };
        let (common, of_model) = (run.common_attributes(cx), run.model_attributes(cx));
        run.span.set_all(common.into_iter().chain(of_model));
        run
    }

    /// Returns the name of a run's span.
    pub fn span_name(agent: &str) -> String {
        format!("{} {agent}", conventions::INVOKE_AGENT)
    }

    /// Returns the identity of the run's span, for its log records.
    pub fn context(&self) -> SpanContext {
        self.span.context()
    }

    /// Begins the span of a run of `agent` that works for this one: below the call for which it works, or below this run if
    /// there is none, or its span has ended.
    pub fn begin_child(&self, agent: &str, call: Option<&str>, at: EventMark) -> SpanDraft {
        let is_open = |tool: &&OpenTool| Some(&*tool.call) == call;
        let above = self.tools.iter().find(is_open).map_or(&self.span, |tool| &tool.span);
        above.child(Self::span_name(agent), SpanKind::Internal, at)
    }

    /// Takes an event of this run other than its start and its end.
    pub fn record(&mut self, at: EventMark, event: &Event, cx: &RecordingContext, out: &mut RecordedTelemetry) {
        let now = at.time;
        match event {
            Event::ModelStarted { iteration, .. } => self.start_chat(at, *iteration, cx, out),
            Event::ModelDelta { delta, .. } => self.note_delta(now, delta),
            Event::ModelFailed { reason, again, .. } => self.note_failure(now, reason, *again, cx, out),
            Event::ModelFinished { model, stop, usage, duration, .. } => {
                self.finish_chat(now, (model, stop, usage, duration.as_secs_f64()), cx, out);
            }
            Event::MessageAdded { message: Some(message), .. } if cx.has_content => self.add_message(message, cx, out),
            Event::ToolStarted { call, tool, origin, arguments, .. } => {
                self.start_tool(at, [call, tool, origin, arguments], cx, out);
            }
            Event::ToolFinished { call, is_error, reason, bytes, duration, .. } => {
                let failure = is_error.then(|| reason.as_deref().unwrap_or_default());
                self.finish_tool(now, call, (failure, *bytes, duration.as_secs_f64()), cx, out);
            }
            Event::PluginCall { plugin, function, outcome, duration, cpu, memory, host_calls, .. } => {
                let took = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
                let began = EventMark { time: now.saturating_sub(took), ..at };
                let name = format!("plugin_call {plugin} {function}");
                let mut span = self.caller_of_plugin(plugin).child(name, SpanKind::Internal, began);
                span.set_all([
                    attribute::text(conventions::PLUGIN_NAME, &**plugin),
                    attribute::text(conventions::PLUGIN_FUNCTION, function.name()),
                    attribute::text(conventions::PLUGIN_OUTCOME, outcome.name()),
                    attribute::fraction(conventions::PLUGIN_CPU_SECONDS, cpu.as_secs_f64()),
                    attribute::number(conventions::PLUGIN_MEMORY_BYTES, *memory as u64),
                    attribute::number(conventions::PLUGIN_HOST_CALLS, *host_calls),
                ]);
                if *outcome != PluginCallOutcome::Ok {
                    span.fail(outcome.name(), "the call of the plugin failed");
                }
                out.end(span, now);
            }
            other => {
                if let Some((name, attributes)) = span_event(other) {
                    self.span.add_event(now, name, attributes);
                }
            }
        }
    }

    /// Ends the run with everything in it. `error` is the reason for which it has no answer.
    pub fn finish(
        mut self,
        now: u64,
        (error, iterations, usage): (Option<&str>, u32, &Usage),
        cx: &RecordingContext,
        out: &mut RecordedTelemetry,
    ) {
        self.end_waiting(out);
        if let Some(mut chat) = self.chat.take() {
            chat.span.fail(conventions::OTHER, "the run ended before the reply");
            out.end(chat.span, now);
        }
        for mut tool in std::mem::take(&mut self.tools) {
            tool.span.fail(conventions::OTHER, "the run ended before the result");
            out.end(tool.span, now);
        }
        let began = self.span.start();
        let mut labels = self.labels(conventions::INVOKE_AGENT, cx);
        labels.push((conventions::AGENT_NAME, self.agent.to_string()));
        if self.given.is_none() && !self.input.is_empty() {
            self.given = Some(self.input.to_attribute(conventions::INPUT_MESSAGES));
        }
        self.span.set_all(self.given.take().into_iter().chain(self.output.take()));
        self.span.set_all(usage_attributes(usage));
        self.span.set_all(self.cost.map(|cost| attribute::fraction(conventions::COST_USD, cost)));
        self.span.set(attribute::number(conventions::RUN_ITERATIONS, iterations.into()));
        if let Some(error) = error {
            let kind = if error == CANCELLED { "cancelled" } else { "run_failed" };
            self.span.fail(kind, &shown_text(error, cx.redact()));
            labels.push((conventions::ERROR_TYPE, kind.to_owned()));
        }
        out.measure(&OPERATION_DURATION, labels, seconds(now.saturating_sub(began)));
        out.end(self.span, now);
    }

    fn start_chat(&mut self, at: EventMark, iteration: u32, cx: &RecordingContext, out: &mut RecordedTelemetry) {
        self.end_waiting(out);
        if let Some(mut chat) = self.chat.take() {
            // The request is made again, for example with a shorter conversation.
            chat.span.fail(conventions::OTHER, "the request was made again");
            out.end(chat.span, at.time);
        }
        let name = format!("{} {}", conventions::CHAT, self.model).trim_end().to_owned();
        let mut span = self.span.child(name, SpanKind::Client, at);
        span.set(attribute::text(conventions::OPERATION_NAME, conventions::CHAT));
        span.set_all(self.common_attributes(cx).into_iter().chain(self.model_attributes(cx)));
        span.set(attribute::number(conventions::ITERATION, iteration.into()));
        if !self.input.is_empty() {
            let input = std::mem::take(&mut self.input).to_attribute(conventions::INPUT_MESSAGES);
            self.given.get_or_insert_with(|| input.clone());
            span.set(input);
        }
        self.chat = Some(OpenChat { span, has_begun: false });
    }

    fn note_delta(&mut self, now: u64, delta: &ReplyDelta) {
        let Some(chat) = self.chat.as_mut().filter(|chat| !chat.has_begun) else { return };
        if !matches!(delta, ReplyDelta::Usage(_)) {
            chat.has_begun = true;
            let waited = seconds(now.saturating_sub(chat.span.start()));
            chat.span.set(attribute::fraction(conventions::TIME_TO_FIRST_CHUNK, waited));
        }
    }

    fn note_failure(
        &mut self,
        now: u64,
        reason: &str,
        again: bool,
        cx: &RecordingContext,
        out: &mut RecordedTelemetry,
    ) {
        let mut labels = self.labels(conventions::CHAT, cx);
        let Some(chat) = &mut self.chat else { return };
        let reason = shown_text(reason, cx.redact());
        let attributes =
            vec![attribute::text("shelly.reason", reason.as_str()), attribute::flag("shelly.again", again)];
        chat.span.add_event(now, "shelly.model.failed", attributes);
        if !again {
            const KIND: &str = "model_failed";
            chat.span.fail(KIND, &reason);
            labels.push((conventions::ERROR_TYPE, KIND.to_owned()));
            out.measure(&OPERATION_DURATION, labels, seconds(now.saturating_sub(chat.span.start())));
        }
    }

    fn finish_chat(
        &mut self,
        now: u64,
        (model, stop, usage, took): (&String, &StopReason, &Usage, f64),
        cx: &RecordingContext,
        out: &mut RecordedTelemetry,
    ) {
        let mut labels = self.labels(conventions::CHAT, cx);
        labels.push((conventions::RESPONSE_MODEL, model.clone()));
        out.measure(&OPERATION_DURATION, labels.clone(), took);
        for (kind, tokens) in [("input", input_tokens(usage)), ("output", usage.output_tokens)] {
            let mut labels = labels.clone();
            labels.push((conventions::TOKEN_TYPE, kind.to_owned()));
            out.measure(&TOKEN_USAGE, labels, tokens as f64);
        }
        let models = &cx.run.models;
        let price = models.price(&self.model).or_else(|| models.price(model));
        let cost = price.map(|price| dollars(price.of(usage)));
        if let Some(cost) = cost {
            self.cost = Some(self.cost.unwrap_or_default() + cost);
            out.measure(&COST, labels, cost);
        }
        let Some(OpenChat { mut span, .. }) = self.chat.take() else { return };
        // An earlier attempt may have failed, or another model may have answered.
        span.recover();
        let reason = finish_reason(stop);
        span.set(attribute::text(conventions::RESPONSE_MODEL, model.as_str()));
        span.set(attribute::texts(conventions::FINISH_REASONS, [reason.clone()]));
        span.set_all(usage_attributes(usage));
        span.set_all(cost.map(|cost| attribute::fraction(conventions::COST_USD, cost)));
        span.end(now);
        match cx.has_content {
            true => self.replied = Some((span, reason)),
            false => out.add(span),
        }
    }

    fn add_message(&mut self, message: &Message, cx: &RecordingContext, out: &mut RecordedTelemetry) {
        for part in &message.parts {
            let Part::ToolResult(result) = part else { continue };
            if let Some(at) = self.answered.iter().position(|tool| tool.call == result.call_id) {
                let mut tool = self.answered.swap_remove(at);
                tool.span.set(attribute::text(conventions::TOOL_RESULT, shown_text(&result.text(), cx.redact())));
                out.add(tool.span);
            }
        }
        let is_reply = message.role == Role::Assistant;
        if is_reply {
            let calls = message.parts.iter().filter_map(|part| match part {
                Part::ToolCall(call) => Some((call.id.clone(), shown_text(&call.arguments, cx.redact()))),
                _ => None,
            });
            self.arguments = calls.take(limits::TELEMETRY_OPEN_SPANS).collect();
        }
        match if is_reply { self.replied.take() } else { None } {
            Some((mut span, reason)) => {
                let mut reply = MessageList::default();
                reply.add_reply(message, &reason, cx.redact());
                let reply = reply.to_attribute(conventions::OUTPUT_MESSAGES);
                self.output = Some(reply.clone());
                span.set(reply);
                out.add(span);
            }
            None => self.input.add(message, cx.redact()),
        }
    }

    fn start_tool(
        &mut self,
        at: EventMark,
        [call, tool, origin, arguments]: [&String; 4],
        cx: &RecordingContext,
        out: &mut RecordedTelemetry,
    ) {
        if !out.may_open(self.tools.len()) {
            return;
        }
        let name = format!("{} {tool}", conventions::EXECUTE_TOOL);
        let mut span = self.span.child(name, SpanKind::Internal, at);
        span.set(attribute::text(conventions::OPERATION_NAME, conventions::EXECUTE_TOOL));
        span.set_all(self.common_attributes(cx));
        span.set_all([
            attribute::text(conventions::TOOL_NAME, tool.as_str()),
            attribute::text(conventions::TOOL_TYPE, "function"),
            attribute::text(conventions::TOOL_CALL_ID, call.as_str()),
            attribute::text(conventions::TOOL_ORIGIN, origin.as_str()),
        ]);
        // They are empty if the tool hides them. The event has them cut, perhaps in the middle of a credential.
        if cx.has_content && !arguments.is_empty() {
            let whole = self.arguments.remove(call).filter(|_| is_cut(arguments));
            let arguments = whole.unwrap_or_else(|| shown_text(before_cut(arguments), cx.redact()));
            span.set(attribute::text(conventions::TOOL_ARGUMENTS, arguments));
        }
        self.tools.push(OpenTool { span, call: call.clone(), tool: tool.clone(), origin: origin.clone() });
    }

    fn finish_tool(
        &mut self,
        now: u64,
        call: &str,
        (failure, bytes, took): (Option<&str>, usize, f64),
        cx: &RecordingContext,
        out: &mut RecordedTelemetry,
    ) {
        let Some(at) = self.tools.iter().position(|tool| tool.call == call) else { return };
        let mut tool = self.tools.swap_remove(at);
        // A model can invent any number of names.
        let name = if tool.origin == NO_ORIGIN { conventions::OTHER } else { tool.tool.as_str() };
        let mut labels: Labels = vec![
            (conventions::OPERATION_NAME, conventions::EXECUTE_TOOL.to_owned()),
            (conventions::TOOL_NAME, name.to_owned()),
        ];
        if let Some(reason) = failure {
            const KIND: &str = "tool_failed";
            labels.push((conventions::ERROR_TYPE, KIND.to_owned()));
            // It is the result of the call.
            let reason = if cx.has_content { shown_text(before_cut(reason), cx.redact()) } else { String::new() };
            tool.span.fail(KIND, &reason);
        }
        out.measure(&OPERATION_DURATION, labels, took);
        tool.span.set(attribute::number(conventions::TOOL_RESULT_BYTES, bytes as u64));
        tool.span.end(now);
        match cx.has_content && self.answered.len() < limits::TELEMETRY_OPEN_SPANS {
            true => self.answered.push(tool),
            false => out.add(tool.span),
        }
    }

    /// Returns the span below which a call of a plugin belongs: that of the tool call that the plugin works on, of the
    /// request that it answers, or of the run.
    fn caller_of_plugin(&self, plugin: &str) -> &SpanDraft {
        let of_tool = self.tools.iter().rev().find(|tool| tool.origin == plugin).map(|tool| &tool.span);
        of_tool.or(self.chat.as_ref().map(|chat| &chat.span)).unwrap_or(&self.span)
    }

    /// Ends the spans that wait for messages.
    fn end_waiting(&mut self, out: &mut RecordedTelemetry) {
        if let Some((span, _)) = self.replied.take() {
            out.add(span);
        }
        self.answered.drain(..).for_each(|tool| out.add(tool.span));
    }

    fn common_attributes(&self, cx: &RecordingContext) -> Vec<KeyValue> {
        let conversation = cx.run.conversation.as_deref();
        let conversation = conversation.map(|id| attribute::text(conventions::CONVERSATION_ID, id));
        [attribute::text(conventions::AGENT_NAME, &*self.agent)].into_iter().chain(conversation).collect()
    }

    fn model_attributes(&self, cx: &RecordingContext) -> Vec<KeyValue> {
        let provider = attribute::text(conventions::PROVIDER_NAME, cx.run.models.provider(&self.model));
        let has_model = !self.model.is_empty();
        let model = has_model.then(|| attribute::text(conventions::REQUEST_MODEL, self.model.as_str()));
        [provider].into_iter().chain(model).collect()
    }

    fn labels(&self, operation: &str, cx: &RecordingContext) -> Labels {
        vec![
            (conventions::OPERATION_NAME, operation.to_owned()),
            (conventions::PROVIDER_NAME, cx.run.models.provider(&self.model).to_owned()),
            (conventions::REQUEST_MODEL, self.model.clone()),
        ]
    }
}

/// Returns all tokens of a prompt: the conventions include those that a cache holds.
fn input_tokens(usage: &Usage) -> u64 {
    usage.input_tokens.saturating_add(usage.cache_read_tokens).saturating_add(usage.cache_write_tokens)
}

fn usage_attributes(usage: &Usage) -> [KeyValue; 4] {
    [
        attribute::number(conventions::INPUT_TOKENS, input_tokens(usage)),
        attribute::number(conventions::OUTPUT_TOKENS, usage.output_tokens),
        attribute::number(conventions::CACHE_READ_TOKENS, usage.cache_read_tokens),
        attribute::number(conventions::CACHE_WRITE_TOKENS, usage.cache_write_tokens),
    ]
}

fn finish_reason(stop: &StopReason) -> String {
    match stop {
        StopReason::EndTurn | StopReason::StopSequence => "stop".into(),
        StopReason::ToolCalls => "tool_call".into(),
        StopReason::MaxTokens => "length".into(),
        StopReason::Refusal => "content_filter".into(),
        StopReason::Other(reason) => cut(reason, limits::TELEMETRY_NAME_CHARS),
    }
}

fn is_cut(text: &str) -> bool {
    text.ends_with('…')
}

/// Returns a text of an event without the word in which it was cut: the rest of that word is not known, so a credential
/// would not be recognized in it.
fn before_cut(text: &str) -> &str {
    match is_cut(text) {
        true => text.rfind(char::is_whitespace).map_or("", |end| &text[..end]),
        false => text,
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use shelly_core::agent::RunError;

    use super::*;

    #[test]
    fn cancelled_run_is_known_by_its_error() {
        assert_eq!(RunError::Cancelled.in_full(), CANCELLED);
    }

    #[test]
    fn word_in_which_a_text_was_cut_is_left_out() {
        for (text, expected) in [("all of it", "all of it"), ("the key sk-123…", "the key"), ("sk-123…", ""), ("", "")]
        {
            assert_eq!(before_cut(text), expected);
        }
    }

    #[test]
    fn finish_reasons_are_those_of_the_conventions() {
        for (stop, expected) in [
            (StopReason::EndTurn, "stop"),
            (StopReason::ToolCalls, "tool_call"),
            (StopReason::MaxTokens, "length"),
            (StopReason::StopSequence, "stop"),
            (StopReason::Refusal, "content_filter"),
            (StopReason::Other("pause".into()), "pause"),
        ] {
            assert_eq!(finish_reason(&stop), expected);
        }
        let long = StopReason::Other("x".repeat(limits::TELEMETRY_NAME_CHARS + 1));
        assert_eq!(finish_reason(&long), format!("{}…", "x".repeat(limits::TELEMETRY_NAME_CHARS)));
    }
}
