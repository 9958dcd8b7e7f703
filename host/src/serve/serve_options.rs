use tokio_util::sync::CancellationToken;

use crate::event::EventSink;

/// Options for serving an app.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The agent whose tools are served; `None`: the entry agent, or [`DEFAULT_AGENT`](crate::app::DEFAULT_AGENT).
    pub agent: Option<String>,
    /// The model of agents that are called as tools; `None`: each has its own.
    pub model: Option<String>,
    /// Records their runs, unless the config says otherwise.
    pub record: bool,
    /// Receives events that belong to no client's call.
    pub events: EventSink,
    /// Cancelled when the server ends: a run of a call that is dropped then goes on when its session is resumed.
    pub ends: CancellationToken,
}
