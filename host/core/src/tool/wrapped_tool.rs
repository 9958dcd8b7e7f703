use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{Tool, ToolConcurrency, ToolCx, ToolOutput};
use crate::{
    chat::{ToolCall, ToolSpec},
    error::Fault,
};

/// A tool around another one, which has the other's properties unless it defines its own. Each type that implements this
/// trait is a [`Tool`].
#[async_trait]
pub trait WrappedTool: Send + Sync {
    /// Returns the tool inside.
    fn inner(&self) -> &dyn Tool;

    /// Returns the wall time that one call may take, including that of the wrapper.
    fn time_limit(&self) -> Duration {
        self.inner().time_limit()
    }

    /// Returns `true` if an interrupted call may simply be repeated.
    fn is_repeatable(&self) -> bool {
        self.inner().is_repeatable()
    }

    /// Returns `true` if its calls report by themselves when they begin to do what must not be repeated.
    fn begins_itself(&self) -> bool {
        self.inner().begins_itself()
    }

    /// Returns the number of characters of a result that a model is shown.
    fn result_chars(&self) -> usize {
        self.inner().result_chars()
    }

    /// Runs the tool.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`], which the model reads as an error result.
    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault>;
}

#[async_trait]
impl<T: WrappedTool> Tool for T {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.inner().spec()
    }

    fn origin(&self) -> &str {
        self.inner().origin()
    }

    fn time_limit(&self) -> Duration {
        WrappedTool::time_limit(self)
    }

    fn is_counted(&self) -> bool {
        self.inner().is_counted()
    }

    fn hides_arguments(&self) -> bool {
        self.inner().hides_arguments()
    }

    fn is_repeatable(&self) -> bool {
        WrappedTool::is_repeatable(self)
    }

    fn begins_itself(&self) -> bool {
        WrappedTool::begins_itself(self)
    }

    fn concurrency(&self) -> ToolConcurrency {
        self.inner().concurrency()
    }

    fn runs_agents(&self) -> bool {
        self.inner().runs_agents()
    }

    fn result_chars(&self) -> usize {
        WrappedTool::result_chars(self)
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        WrappedTool::call(self, cx, call).await
    }
}
