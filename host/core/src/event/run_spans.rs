use std::{fmt, sync::Arc};

use url::Url;

use super::PropagatedSpan;

/// The open spans of the runs of one sink, which other hosts that take part in them may be told. The exporter of telemetry
/// implements it; without telemetry no run has spans.
pub trait RunSpans: fmt::Debug + Send + Sync {
    /// Returns the span of a step, if this destination may be told: that of the tool call with this id, or else that of the
    /// request to a model that is under way, or else that of the run.
    fn span_for(&self, run: &str, call: Option<&str>, destination: SpanDestination<'_>) -> Option<PropagatedSpan>;
}

/// The receiver of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanDestination<'a> {
    /// The server of a URL.
    Server(&'a Url),
    /// An MCP server that is a program or in this process, by its name in the config.
    McpProgram(&'a str),
    /// A worker of the cluster that the config names, which is given the whole task.
    Worker,
}

/// A step of a run that has spans: a tool call, or a request to a model.
#[derive(Debug, Clone)]
pub struct StepSpan {
    pub(super) spans: Arc<dyn RunSpans>,
    pub(super) run: Arc<str>,
    pub(super) call: Option<Arc<str>>,
}

impl StepSpan {
    /// Returns the span as this destination is told it; `None` if it is told none.
    pub fn span_for(&self, destination: SpanDestination<'_>) -> Option<PropagatedSpan> {
        self.spans.span_for(&self.run, self.call.as_deref(), destination)
    }
}
