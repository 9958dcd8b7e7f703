use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;

use crate::{
    app::EntryRunner,
    chat::{MessageMeta, StopReason, Usage},
    error::Fault,
    event::RunCx,
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo},
};

/// A model whose replies have at most a number of tokens together.
struct OutputBudgetModel {
    model: Arc<dyn Completer>,
    left: AtomicU64,
}

/// Returns an agent whose replies in one run have at most `tokens` tokens together; the last one is cut. A team is
/// returned as it is: its members are asked by budgets of their own.
pub(super) fn with_output_budget(runner: EntryRunner, tokens: u64) -> EntryRunner {
    match runner {
        EntryRunner::Agent(mut agent) => {
            let model = Arc::clone(&agent.completer);
            agent.completer = Arc::new(OutputBudgetModel { model, left: AtomicU64::new(tokens) });
            EntryRunner::Agent(agent)
        }
        team @ EntryRunner::Team(_) => team,
    }
}

#[async_trait]
impl Completer for OutputBudgetModel {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            // As a vendor ends a reply for which no token is left.
            let model = self.model.info().model.clone();
            let (parts, usage, meta) = (Vec::new(), Usage::default(), MessageMeta::new());
            return Ok(Completion { parts, stop: StopReason::MaxTokens, usage, model, meta });
        }
        let most = u32::try_from(left).unwrap_or(u32::MAX);
        let most = request.max_output_tokens.map_or(most, |bound| bound.min(most));
        let request = CompletionRequest { max_output_tokens: Some(most), ..request.clone() };
        let completion = self.model.complete(cx, &request, sink).await?;
        // One agent has one request at a time; those of its effects count too.
        let used = completion.usage.output_tokens;
        self.left.store(left.saturating_sub(used), Ordering::SeqCst);
        Ok(completion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        agent::Agent,
        chat::{ChatSnapshot, Message},
        model::ScriptedCompleter,
    };

    #[tokio::test]
    async fn replies_share_their_output_tokens() {
        let reply = |tokens| {
            ScriptedCompleter::text("so").map(|completion| Completion {
                usage: Usage { output_tokens: tokens, ..Usage::default() },
                ..completion
            })
        };
        let model = Arc::new(ScriptedCompleter::new([reply(30), reply(90)]));
        let agent = Agent::new("a", "", Arc::clone(&model) as _);
        let EntryRunner::Agent(agent) = with_output_budget(EntryRunner::Agent(Box::new(agent)), 100) else {
            panic!("it was an agent")
        };
        let messages = ChatSnapshot::from_messages(vec![Message::user("go")]).unwrap();
        let request = CompletionRequest { max_output_tokens: Some(80), ..CompletionRequest::new(messages, [].into()) };
        let (cx, sink) = (RunCx::new("a"), DeltaSink::none());
        for _ in 0..2 {
            agent.completer.complete(&cx, &request, &sink).await.unwrap();
        }
        let spent = agent.completer.complete(&cx, &request, &sink).await.unwrap();
        assert_eq!((spent.stop, spent.parts), (StopReason::MaxTokens, vec![]));
        let bounds: Vec<_> = model.requests().iter().map(|request| request.max_output_tokens).collect();
        assert_eq!(bounds, [Some(80), Some(70)]);
    }
}
