//! Events that become no span: events on the span of their run, log records, denials.

use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    logs::v1::{LogRecord, SeverityNumber},
};
use shelly_core::event::{
    Event, LogLevel, MiddlewareAction, ModelWait, PluginRequestOutcome, QuestionDecision, SpanContext,
};

use crate::{
    attribute, conventions,
    message_content::shown_text,
    metric_set::DENIALS,
    recorded::{RecordedTelemetry, RecordingContext},
};

/// Returns the event that is noted on the span of a run, with its attributes. It has no text of a conversation.
pub(crate) fn span_event(event: &Event) -> Option<(&'static str, Vec<KeyValue>)> {
    Some(match event {
        Event::ModelWaits { wait, .. } => {
            ("shelly.model.waits", vec![attribute::text("shelly.wait", wait_word(*wait))])
        }
        Event::QuestionAsked { id, .. } => {
            ("shelly.question.asked", vec![attribute::number("shelly.question.id", *id)])
        }
        Event::QuestionAnswered { id, outcome, by, .. } => {
            let by = format!("{by:?}").to_lowercase();
            let attributes = vec![
                attribute::number("shelly.question.id", *id),
                attribute::text("shelly.question.outcome", outcome.name()),
                attribute::text("shelly.question.by", by),
            ];
            ("shelly.question.answered", attributes)
        }
        Event::TeamStep { step, members, done, .. } => {
            let attributes = vec![
                attribute::number("shelly.team.step", (*step).into()),
                attribute::texts("shelly.team.members", members.iter().map(|member| member.to_string())),
                attribute::flag("shelly.team.done", *done),
            ];
            ("shelly.team.step", attributes)
        }
        Event::HandedOver { to, .. } => ("shelly.handed_over", vec![attribute::text("shelly.to", &**to)]),
        Event::MiddlewareActed { middleware, action, tool, .. } => {
            let tool = tool.as_deref().map(|tool| attribute::text(conventions::TOOL_NAME, tool));
            let attributes = vec![
                attribute::text("shelly.middleware.name", middleware.as_str()),
                attribute::text("shelly.middleware.action", action.name()),
            ];
            ("shelly.middleware.acted", attributes.into_iter().chain(tool).collect())
        }
        _ => return None,
    })
}

fn wait_word(wait: ModelWait) -> &'static str {
    match wait {
        ModelWait::RateLimit => "rate_limit",
        ModelWait::BatchSubmitted => "batch_submitted",
        ModelWait::BatchPolling => "batch_polling",
        ModelWait::BatchCompleted => "batch_completed",
        ModelWait::BatchFallback => "batch_fallback",
        ModelWait::Retry => "retry",
        ModelWait::Worker => "worker",
    }
}

/// Counts an event that denies something.
pub(crate) fn count_denial(event: &Event, out: &mut RecordedTelemetry) {
    let kind = match event {
        Event::CapabilityDecided { allowed: false, .. } => "capability",
        Event::MiddlewareActed { action: MiddlewareAction::Deny, .. } => "tool_call",
        Event::PluginRequest { outcome: PluginRequestOutcome::Refused, .. } => "request",
        Event::QuestionAnswered {
            outcome: QuestionDecision::No | QuestionDecision::Declined | QuestionDecision::Nobody,
            ..
        } => "question",
        _ => return,
    };
    out.measure(&DENIALS, vec![(conventions::DENIAL_KIND, kind.to_owned())], 1.0);
}

/// Returns the log record of an event: a warning, a failure that a run has survived, or an entry of a plugin's log.
/// `span` is that of the run that it is about.
pub(crate) fn log_record(
    now: u64,
    event: &Event,
    span: Option<SpanContext>,
    cx: &RecordingContext,
) -> Option<LogRecord> {
    let warn = SeverityNumber::Warn;
    let (severity, agent, source, text) = match event {
        Event::Warning { message } => (warn, None, None, message.clone()),
        Event::Overspent { agent, message } => (warn, Some(agent), None, message.clone()),
        Event::EffectFailed { agent, effect, reason, .. } => {
            (warn, Some(agent), None, format!("effect `{effect}` failed: {reason}"))
        }
        Event::MiddlewareFailed { agent, middleware, reason, .. } => {
            (warn, Some(agent), None, format!("middleware `{middleware}` failed: {reason}"))
        }
        Event::PluginLog { agent, plugin, level, message } => {
            (severity_of(*level), Some(agent), Some(plugin), message.clone())
        }
        _ => return None,
    };
    let conversation = cx.run.conversation.as_deref();
    let agent = agent.map(|agent| attribute::text(conventions::AGENT_NAME, &**agent));
    let source = source.map(|plugin| attribute::text(conventions::PLUGIN_NAME, &**plugin));
    let conversation = conversation.map(|id| attribute::text(conventions::CONVERSATION_ID, id));
    Some(LogRecord {
        time_unix_nano: now,
        observed_time_unix_nano: now,
        severity_number: severity.into(),
        severity_text: severity_word(severity).to_owned(),
        body: Some(attribute::text_value(shown_text(&text, cx.redact()))),
        attributes: agent.into_iter().chain(source).chain(conversation).collect(),
        flags: span.map_or(0, |span| u32::from(span.is_sampled)),
        trace_id: span.map(|span| span.trace_id.to_vec()).unwrap_or_default(),
        span_id: span.map(|span| span.span_id.to_vec()).unwrap_or_default(),
        ..LogRecord::default()
    })
}

fn severity_of(level: LogLevel) -> SeverityNumber {
    match level {
        LogLevel::Debug => SeverityNumber::Debug,
        LogLevel::Info => SeverityNumber::Info,
        LogLevel::Warn => SeverityNumber::Warn,
        LogLevel::Error => SeverityNumber::Error,
    }
}

fn severity_word(severity: SeverityNumber) -> &'static str {
    match severity {
        SeverityNumber::Debug => "DEBUG",
        SeverityNumber::Info => "INFO",
        SeverityNumber::Error => "ERROR",
        _ => "WARN",
    }
}
