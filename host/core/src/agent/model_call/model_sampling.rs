//! Completions by the model of a run, for tools that request them.

use super::{ModelRequest, ask};
use crate::{
    agent::{
        context::{RunState, in_time},
        journal::JournalRecord,
    },
    error::Fault,
    event::RunCx,
    model::{Completion, CompletionRequest, Usage},
};

/// Requests a completion from the model of the agent whose run this is, through all middleware around its requests and
/// within its budget, which pays for it. Nothing of it is added to the conversation. Dropping the future cancels the
/// request.
///
/// # Errors
///
/// Returns a [`Fault`] if no agent works in this run, its budget is used up, or the request to the model failed.
pub async fn sample(cx: &RunCx, request: CompletionRequest) -> Result<Completion, Fault> {
    let nobody = || Fault::other("no agent is running here whose model could be called");
    let me = RunState::of_caller(cx).ok_or_else(nobody)?;
    let models = &me.caller.as_ref().ok_or_else(nobody)?.models;
    request
        .messages
        .check()
        .map_err(|error| Fault::invalid(format!("invalid conversation in the request to the model: {error}")))?;
    // A reply may cost all that is left of the budget, so the requests run one after the other.
    let _turn = me.sampling.lock().await;
    let mut used = SamplingUsageGuard { me: &me, usage: Usage::default() };
    let asked = ask(&me, models, ModelRequest { model: None, request, shown: false }, &mut used.usage);
    let asked = in_time(&me.budget_account, asked).await;
    let (completion, cost) = asked.and_then(|asked| asked).map_err(|error| error.as_fault())?;
    // The payer records the usage of failed requests.
    me.write(|| JournalRecord::Wasted { usage: completion.usage, cost });
    Ok(completion)
}

/// Adds the usage to the run when dropped, also if nobody waits for the reply any more.
struct SamplingUsageGuard<'a> {
    me: &'a RunState,
    usage: Usage,
}

impl Drop for SamplingUsageGuard<'_> {
    fn drop(&mut self) {
        self.me.used_by_tools(self.usage);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    };

    use async_trait::async_trait;
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::{
        agent::Agent,
        capability::Budget,
        chat::{Chat, ChatSnapshot, Message},
        model::{Completer, DeltaSink, ModelInfo, ScriptedCompleter},
        tool::{self, ToolBox, ToolSource},
    };

    #[derive(Deserialize, JsonSchema)]
    struct NoArgs {}

    fn question() -> CompletionRequest {
        let messages = ChatSnapshot::from_messages(vec![Message::user("which?")]).unwrap();
        CompletionRequest::new(messages, [].into())
    }

    #[tokio::test]
    async fn tool_samples_the_model_of_its_run() {
        let thinking = || {
            tool::function("think", "", |cx, NoArgs {}| async move {
                let reply = sample(&cx.run, question()).await?;
                Ok(format!("{} tokens", reply.usage.total()))
            })
        };
        let model = || {
            ScriptedCompleter::new([
                ScriptedCompleter::calls(&[("1", "think", "{}")]),
                ScriptedCompleter::text("this one"),
                ScriptedCompleter::text("done"),
            ])
        };
        let agent = Agent::new("ada", "", Arc::new(model())).with_tool(thinking());
        let chat = Chat::new();
        let answer = agent.run(&RunCx::new("ada"), &chat, vec![Message::user("go")]).await.unwrap();
        assert_eq!(answer.message.text_content(), "done");
        assert_eq!(answer.usage, answer.account.own.usage, "all three are counted, and paid");
        assert!(!format!("{:?}", chat.snapshot().iter().collect::<Vec<_>>()).contains("this one"));
        // The first reply uses up the budget.
        let agent = Agent::new("ada", "", Arc::new(model())).with_tool(thinking());
        let agent = agent.with_budget(Budget { tokens: Some(1), ..Budget::default() });
        let failed = agent.run(&RunCx::new("ada"), &Chat::new(), vec![Message::user("go")]).await;
        assert!(failed.is_err(), "{failed:?}");
        // Without an agent there is no model.
        let fault = sample(&RunCx::new("ada"), question()).await.unwrap_err();
        assert!(fault.to_string().contains("no agent is running here"), "{fault}");
    }

    /// A slow model that counts the most replies it was working on at once.
    struct Slow(ScriptedCompleter, AtomicU32, AtomicU32);

    #[async_trait]
    impl Completer for Slow {
        fn info(&self) -> &ModelInfo {
            self.0.info()
        }

        async fn complete(
            &self,
            cx: &RunCx,
            request: &CompletionRequest,
            sink: &DeltaSink,
        ) -> Result<Completion, Fault> {
            self.2.fetch_max(self.1.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            let completion = self.0.complete(cx, request, sink).await;
            self.1.fetch_sub(1, Ordering::Relaxed);
            completion
        }
    }

    #[tokio::test]
    async fn parallel_samplings_share_the_remaining_budget() {
        let think = tool::function("think", "", |cx, NoArgs {}| async move {
            let replies = (0..3).map(|_| sample(&cx.run, question()));
            let replies = futures_util::future::join_all(replies).await;
            Ok(format!("{}", replies.iter().filter(|reply| reply.is_ok()).count()))
        });
        let replies = [ScriptedCompleter::calls(&[("1", "think", "{}")])];
        let replies = replies.into_iter().chain(["a", "b", "c", "done"].map(ScriptedCompleter::text));
        let model = Arc::new(Slow(ScriptedCompleter::new(replies), AtomicU32::new(0), AtomicU32::new(0)));
        let agent = Agent::new("ada", "", Arc::clone(&model) as _).with_tool(think);
        agent.run(&RunCx::new("ada"), &Chat::new(), vec![Message::user("go")]).await.unwrap();
        assert_eq!((model.0.requests().len(), model.2.load(Ordering::Relaxed)), (5, 1));
    }

    /// A source with one tool, and a second one from the first call on.
    #[derive(Default)]
    struct Growing {
        calls: Arc<AtomicU32>,
        made: Mutex<(u32, ToolBox)>,
    }

    impl ToolSource for Growing {
        fn tools(&self) -> ToolBox {
            let (calls, mut made) = (self.calls.load(Ordering::Relaxed), self.made.lock().unwrap());
            if made.1.is_empty() || made.0 != calls {
                let count = Arc::clone(&self.calls);
                let first = tool::function("grow", "", move |_, NoArgs {}| {
                    count.fetch_add(1, Ordering::Relaxed);
                    async { Ok("there is another one now") }
                });
                let mut tools = ToolBox::new().with(first);
                if calls > 0 {
                    tools = tools.with(tool::function("more", "", |_, NoArgs {}| async { Ok("more") }));
                }
                *made = (calls, tools);
            }
            made.1.clone()
        }
    }

    #[tokio::test]
    async fn tools_added_during_a_run_appear_in_the_next_turn() {
        let model = ScriptedCompleter::new([
            ScriptedCompleter::calls(&[("1", "grow", "{}"), ("2", "more", "{}")]),
            ScriptedCompleter::calls(&[("3", "more", "{}")]),
            ScriptedCompleter::text("done"),
        ]);
        let agent = Agent::new("ada", "", Arc::new(model)).with_source(Arc::<Growing>::default());
        let chat = Chat::new();
        agent.run(&RunCx::new("ada"), &chat, vec![Message::user("go")]).await.unwrap();
        let chat = chat.snapshot();
        let results: Vec<_> =
            chat.iter().flat_map(|entry| entry.message.tool_results().map(|result| result.text())).collect();
        assert_eq!(results[0], "there is another one now");
        assert!(results[1].starts_with("tool not found: more"), "it was not shown in that turn: {}", results[1]);
        assert_eq!(results[2], "more");
    }
}
