//! Notifications to a client during its call: progress and log entries.
#![expect(deprecated, reason = "clients of earlier revisions read the log")]

use std::sync::Arc;

use rmcp::{
    Peer, RoleServer,
    model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken},
};
use serde_json::Value;
use tokio::time::Instant;

use super::server_setup::McpToolCaller;
use shelly_core::{
    error::cut,
    event::{Event, EventSink, LogLevel, StreamEvent},
    limits,
};

/// The recipient of a call's notifications, and their limits.
pub(super) struct CallNotifier {
    pub peer: Peer<RoleServer>,
    /// The progress token; `None` if the client wants no progress.
    pub mark: Option<ProgressToken>,
    /// The minimum level of log entries; `None` if the client wants none.
    pub level: Option<LoggingLevel>,
    /// Receives all events, except log entries that were sent to the client.
    pub events: EventSink,
    /// Makes the texts fit for the client.
    pub caller: Arc<dyn McpToolCaller>,
    pub sent: SentNotifications,
}

/// The notifications sent for a call so far.
#[derive(Debug, Default)]
pub(super) struct SentNotifications {
    /// Steps of agents.
    steps: u32,
    /// The last progress value sent: each must be larger.
    progress: Option<f64>,
    progresses: NotificationRate,
    lines: NotificationRate,
}

/// Counts notifications in the current time window.
#[derive(Debug, Default)]
struct NotificationRate {
    since: Option<Instant>,
    count: u32,
}

impl NotificationRate {
    fn has_room(&mut self) -> bool {
        let now = Instant::now();
        if self.since.is_none_or(|since| now - since >= limits::MCP_SERVE_TOLD_WINDOW) {
            *self = Self { since: Some(now), count: 0 };
        }
        self.count += 1;
        self.count <= limits::MCP_SERVE_TOLD_PER_SECOND
    }
}

impl CallNotifier {
    /// Notifies the client of an event in `call`.
    pub async fn tell(&mut self, call: &str, event: StreamEvent) {
        if let Event::PluginLog { plugin, level, message, .. } = &event.event
            && let Some(least) = self.level
            && rank(of_log(*level)) >= rank(least)
            && self.sent.lines.has_room()
        {
            let entry = LoggingMessageNotificationParam::new(of_log(*level), Value::String(self.caller.shown(message)));
            let _ = self.peer.notify_logging_message(entry.with_logger(&**plugin)).await;
            return;
        }
        if let Some(mark) = &self.mark
            && let Some((progress, total, message)) = self.sent.progress(call, &event.event)
        {
            let mut notification = ProgressNotificationParam::new(mark.clone(), progress);
            (notification.total, notification.message) = (total, message.map(|message| self.caller.shown(&message)));
            let _ = self.peer.notify_progress(notification).await;
        }
        self.events.emit_again_now(event);
    }
}

impl SentNotifications {
    /// Returns the progress after this event: value, total and message; `None` if nothing is to be sent.
    fn progress(&mut self, call: &str, event: &Event) -> Option<(f64, Option<f64>, Option<String>)> {
        let short = |text: &str| cut(text, limits::MCP_SERVE_TOLD_CHARS);
        let step = match event {
            Event::ToolProgress { call: of, done, total, message, .. } if of == call => {
                let is_more = done.is_finite() && self.progress.is_none_or(|last| *done > last);
                if !is_more || !self.progresses.has_room() {
                    return None;
                }
                self.progress = Some(*done);
                return Some((*done, total.filter(|total| total.is_finite()), message.as_deref().map(short)));
            }
            Event::ModelStarted { agent, iteration, .. } => format!("{agent}: turn {}", iteration.saturating_add(1)),
            Event::ToolStarted { agent, call: of, tool, .. } if of != call => format!("{agent} calls {tool}"),
            Event::ModelFailed { agent, again: true, reason, .. } => format!("{agent} asks its model again: {reason}"),
            Event::HandedOver { agent, to, .. } => format!("{agent} hands over to {to}"),
            _ => return None,
        };
        self.steps += 1;
        let steps = f64::from(self.steps);
        if self.progress.is_some_and(|last| steps <= last) || !self.progresses.has_room() {
            return None;
        }
        self.progress = Some(steps);
        Some((steps, None, Some(short(&step))))
    }
}

fn of_log(level: LogLevel) -> LoggingLevel {
    match level {
        LogLevel::Debug => LoggingLevel::Debug,
        LogLevel::Info => LoggingLevel::Info,
        LogLevel::Warn => LoggingLevel::Warning,
        LogLevel::Error => LoggingLevel::Error,
    }
}

/// Returns the rank of a level; a more severe one is higher.
fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shelly_core::event::RequestTokens;

    fn progress(call: &str, done: f64, total: Option<f64>) -> Event {
        Event::ToolProgress { agent: "a".into(), call: call.into(), done, total, message: Some("m".repeat(500)) }
    }

    #[tokio::test(start_paused = true)]
    async fn progress_grows_and_is_not_told_too_often() {
        let mut said = SentNotifications::default();
        let turn = Event::ModelStarted {
            agent: "ada".into(),
            iteration: 0,
            tokens: 7,
            parts: RequestTokens::default(),
            window: None,
        };
        for (event, told) in [
            (progress("c", 0.0, None), Some(0.0)),
            (progress("c", 0.0, Some(2.0)), None),
            (progress("other", 1.0, None), None),
            (progress("c", f64::NAN, None), None),
            (progress("c", f64::INFINITY, None), None),
            (progress("c", 0.5, Some(f64::NAN)), Some(0.5)),
            (turn.clone(), Some(1.0)),
            (turn.clone(), Some(2.0)),
            (progress("c", 10.0, None), Some(10.0)),
            (turn, None),
        ] {
            let (number, total, message) =
                said.progress("c", &event).map_or((None, None, None), |told| (Some(told.0), told.1, told.2));
            assert_eq!((number, total), (told, None), "{event:?}");
            assert!(message.is_none_or(|message| message.chars().count() <= limits::MCP_SERVE_TOLD_CHARS + 1));
        }
        let mut flood = |from: u32| {
            (from..from + 1_000).filter(|n| said.progress("c", &progress("c", f64::from(*n), None)).is_some()).count()
        };
        assert!(flood(100) < limits::MCP_SERVE_TOLD_PER_SECOND as usize);
        tokio::time::advance(limits::MCP_SERVE_TOLD_WINDOW).await;
        assert_eq!(flood(5_000), limits::MCP_SERVE_TOLD_PER_SECOND as usize);
    }
}
