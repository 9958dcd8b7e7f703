//! Counts of the server in the text format of Prometheus.

use std::fmt::Write as _;

use super::views::cost;
use crate::serve::hosted_runs::{HostedRunState, RunHost};

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One metric with its samples.
struct MetricText<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl<'a> MetricText<'a> {
    fn begin(text: &'a mut String, name: &'static str, kind: &str, help: &str) -> Self {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Self { text, name }
    }

    fn sample(&mut self, labels: &str, value: impl std::fmt::Display) -> &mut Self {
        let _ = writeln!(self.text, "{}{labels} {value}", self.name);
        self
    }
}

/// Returns the metrics; `connections` are those that are open.
pub(super) fn metrics(host: &RunHost, connections: usize) -> String {
    let (runs, totals) = (host.runs(), host.totals());
    let mut text = String::new();
    let at_work = [HostedRunState::Preparing, HostedRunState::Running];
    let count = |state: HostedRunState| runs.iter().filter(|run| run.state() == state).count();
    let mut metric = MetricText::begin(&mut text, "shelly_runs", "gauge", "Runs at work, by state.");
    for state in at_work {
        metric.sample(&label("state", state.word()), count(state));
    }
    let help = "Runs that have ended since the start of the server, by state.";
    let mut metric = MetricText::begin(&mut text, "shelly_runs_ended_total", "counter", help);
    for (state, count) in HostedRunState::ALL.into_iter().zip(totals.ended).filter(|(state, _)| state.has_ended()) {
        metric.sample(&label("state", state.word()), count);
    }

    let usage = totals.spent.usage;
    let help = "Tokens of runs that have ended, by kind.";
    MetricText::begin(&mut text, "shelly_tokens_total", "counter", help)
        .sample(&label("kind", "input"), usage.input_tokens)
        .sample(&label("kind", "output"), usage.output_tokens)
        .sample(&label("kind", "cache_read"), usage.cache_read_tokens)
        .sample(&label("kind", "cache_write"), usage.cache_write_tokens);
    let help = "Cost of runs that have ended, in US dollars, as far as prices are known.";
    MetricText::begin(&mut text, "shelly_cost_usd_total", "counter", help)
        .sample("", cost(&totals.spent).unwrap_or_default());
    let open = host.questions().len();
    MetricText::begin(&mut text, "shelly_questions_open", "gauge", "Questions that wait for a person.")
        .sample("", open);
    MetricText::begin(&mut text, "shelly_connections", "gauge", "Open HTTP connections.").sample("", connections);
    let help = "Streams of events that are read.";
    MetricText::begin(&mut text, "shelly_event_streams", "gauge", help).sample("", host.watchers());
    let help = "Events of runs that no stream can send any more; sessions still have what they record.";
    MetricText::begin(&mut text, "shelly_events_dropped_total", "counter", help).sample("", totals.dropped_events);
    if let Some(memory) = host.app().guest_memory_use() {
        let help = "Memory that instances of plugins hold.";
        MetricText::begin(&mut text, "shelly_plugin_memory_bytes", "gauge", help).sample("", memory.held);
        let help = "Memory that instances of plugins may hold together.";
        MetricText::begin(&mut text, "shelly_plugin_memory_limit_bytes", "gauge", help).sample("", memory.total);
    }
    text
}

fn label(name: &str, value: &str) -> String {
    format!("{{{name}=\"{value}\"}}")
}
