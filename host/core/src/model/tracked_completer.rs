use std::sync::Arc;

use async_trait::async_trait;

use super::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, UsageTracker};
use crate::{error::Fault, event::RunCx};

/// A model whose completions are counted, for all of its callers.
///
/// ```
/// use std::sync::Arc;
/// use shelly_core::{
///     agent::Agent,
///     chat::{Chat, Message},
///     event::RunCx,
///     model::{ScriptedCompleter, TrackedCompleter, UsageTracker},
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tracker = Arc::new(UsageTracker::new());
/// let model = ScriptedCompleter::new([ScriptedCompleter::text("Four.")]);
/// let agent = Agent::new("ada", "Be brief.", Arc::new(TrackedCompleter::new(Arc::new(model), tracker.clone())));
/// agent.run(&RunCx::new("ada"), &Chat::new(), vec![Message::user("Two and two?")]).await?;
/// assert_eq!((tracker.count(), tracker.total().output_tokens), (1, 5));
/// # Ok(()) }
/// ```
pub struct TrackedCompleter {
    model: Arc<dyn Completer>,
    tracker: Arc<UsageTracker>,
}

impl TrackedCompleter {
    /// Wraps a model, whose successful completions `tracker` counts.
    pub fn new(model: Arc<dyn Completer>, tracker: Arc<UsageTracker>) -> Self {
        Self { model, tracker }
    }
}

#[async_trait]
impl Completer for TrackedCompleter {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        let completion = self.model.complete(cx, request, sink).await?;
        self.tracker.add(completion.usage);
        Ok(completion)
    }
}
