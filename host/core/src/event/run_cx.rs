use std::sync::Arc;

use super::{EventSink, RunCaller, RunExtensions};

/// The identity of a run and its event sink. It is passed through everything that a run does.
#[derive(Debug, Clone)]
pub struct RunCx {
    /// The name of the run that a person has started. The runs that work for it have the same name, and their own ids in
    /// [events](super::StreamEvent::run).
    pub run: Arc<str>,
    /// The instance name of the agent.
    pub agent: Arc<str>,
    /// The delegation depth; 0 for an agent that a person started.
    pub depth: u32,
    /// The sink for the events of this run.
    pub events: EventSink,
    /// The agent that works in the run, for tools that act in its name.
    pub caller: RunCaller,
    /// Values that live as long as this run.
    pub extensions: RunExtensions,
}

impl RunCx {
    /// Creates the context of a run of `agent` without event readers.
    pub fn new(agent: impl Into<Arc<str>>) -> Self {
        Self {
            run: "run".into(),
            agent: agent.into(),
            depth: 0,
            events: EventSink::none(),
            caller: RunCaller::default(),
            extensions: RunExtensions::default(),
        }
    }

    /// Returns this context under another run name.
    pub fn with_run(self, run: impl Into<Arc<str>>) -> Self {
        Self { run: run.into(), ..self }
    }

    /// Returns this context with `events` as its sink.
    pub fn with_events(self, events: EventSink) -> Self {
        Self { events, ..self }
    }

    /// Waits for `work` that others do, such as a person who is asked. Meanwhile the agent of this run holds no concurrency
    /// permit, so that another agent can work.
    pub async fn wait_for_others<T>(&self, work: impl Future<Output = T>) -> T {
        let _wait = self.caller.begin_wait();
        work.await
    }

    /// Returns this context for another run, without a caller and with empty extensions.
    pub fn anew(&self) -> Self {
        Self { caller: RunCaller::default(), extensions: RunExtensions::default(), ..self.clone() }
    }

    /// Returns the context of a run that begins in this one, like [`RunCx::anew`]. Its events are about a run with an id of
    /// its own, whose parent is the run that the events of this context are about.
    pub(crate) fn of_new_run(&self) -> Self {
        Self { events: self.events.of_new_run(&self.run), ..self.anew() }
    }
}
