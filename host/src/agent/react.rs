//! The loop: ask the model, run the tools that it calls, until it answers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Agent, RunError,
    agent::Spent,
    effect::{Effects, EffectsOf, Moment, Phase},
};
use crate::{
    chat::{Chat, Message, OpenCalls, Part, ToolResult},
    event::{Event, RunCx},
    limits,
    model::{Completion, CompletionRequest, Delta, DeltaSink, DeltaTarget, StopReason, Usage},
    tool::{ToolBox, ToolCx},
};

pub(super) async fn run(
    agent: &Agent,
    cx: &RunCx,
    chat: &Chat,
    input: Vec<Message>,
    spent: &mut Spent,
) -> Result<Message, RunError> {
    for message in input {
        chat.append(message).map_err(|error| RunError::Middleware {
            name: "input".into(),
            fault: crate::error::Fault::invalid(error.to_string()),
        })?;
    }
    let started = Instant::now();
    let names: Arc<[String]> = agent.tools.names().map(str::to_owned).collect();
    let on = EffectsOf { cx, chat, completer: &*agent.completer, tools: &names };
    let mut effects = Effects::new(&agent.effects, on);
    let mut last_usage = None;

    for iteration in 0..agent.max_iterations {
        spent.iterations += 1;
        let at = |phase, tools: &ToolBox, last_usage, spent: &Spent| Moment {
            phase,
            iteration,
            request_tokens: CompletionRequest::new(chat.snapshot(), tools.specs()).tokens(),
            context_window: agent.completer.info().context_window,
            last_usage,
            run_usage: spent.usage,
            model_time: spent.model_time,
            elapsed: started.elapsed(),
            reply: None,
        };
        if !agent.effects.is_empty() {
            effects.eval(&mut at(Phase::BeforeModel, &agent.tools, last_usage, spent), &mut spent.usage).await?;
        }
        let hidden = effects.hidden_tools();
        let tools = if hidden.is_empty() { agent.tools.clone() } else { agent.tools.without(&hidden) };

        let completion =
            complete(agent, cx, CompletionRequest::new(chat.snapshot(), tools.specs()), iteration, spent).await?;
        last_usage = Some(completion.usage);
        let stop = completion.stop.clone();
        let message = completion.into_message(&agent.name);
        let seen = chat.snapshot();
        let open = chat.reply(message.clone());
        if !agent.effects.is_empty() {
            let after = effects.eval(&mut at(Phase::AfterModel, &tools, last_usage, spent), &mut spent.usage).await;
            if let Err(error) = after {
                open.abandon(&error.to_string());
                return Err(error);
            }
        }
        match stop {
            StopReason::MaxTokens => {
                open.abandon("the reply that made it was cut off");
                return Err(RunError::Cut);
            }
            StopReason::Refusal => {
                open.abandon("the model declined to answer");
                return Err(RunError::Refused(message.text_content()));
            }
            _ if open.calls().is_empty() => {
                return if says_nothing(&message) { Err(RunError::Empty) } else { Ok(message) };
            }
            _ => {
                let cx = ToolCx { run: cx.clone(), chat: seen, tools: names.clone() };
                let results = run_calls(&tools, &cx, &open).await;
                open.answer(results);
            }
        }
    }
    Err(RunError::MaxIterations(agent.max_iterations))
}

/// Thoughts alone are no answer.
fn says_nothing(message: &Message) -> bool {
    message.parts.iter().all(|part| match part {
        Part::Text(text) => text.trim().is_empty(),
        Part::Thinking(_) => true,
        _ => false,
    })
}

async fn complete(
    agent: &Agent,
    cx: &RunCx,
    request: CompletionRequest,
    iteration: u32,
    spent: &mut Spent,
) -> Result<Completion, RunError> {
    if cx.events.is_watched() {
        cx.events.emit(Event::ModelStarted { agent: cx.agent.clone(), iteration, tokens: request.tokens() }).await;
    }
    // What a middleware may still replace must not be seen before it did.
    let shown = cx.events.is_watched() && agent.middleware.is_empty();
    let watcher = Arc::new(Watcher { cx: cx.clone(), shown, usage: Mutex::default() });
    let started = Instant::now();
    let outcome = agent.completer.complete(cx, &request, &DeltaSink::new(watcher.clone())).await;
    let duration = started.elapsed();
    spent.model_time += duration;
    // A reply that was cut off has cost what was told of it until then.
    spent.usage += outcome.as_ref().map_or_else(|_| watcher.usage(), |completion| completion.usage);
    let completion = outcome.map_err(RunError::Model)?;
    if cx.events.is_watched() {
        let calls = completion.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
        let Completion { model, stop, usage, .. } = &completion;
        let (agent, model, stop, usage): (_, _, _, Usage) = (cx.agent.clone(), model.clone(), stop.clone(), *usage);
        cx.events.emit(Event::ModelFinished { agent, iteration, model, stop, calls, usage, duration }).await;
    }
    Ok(completion)
}

/// Runs the calls of a reply side by side; the results are in the order of the calls.
async fn run_calls(tools: &ToolBox, cx: &ToolCx, open: &OpenCalls) -> Vec<ToolResult> {
    let (calls, beyond) = open.calls().split_at(open.calls().len().min(limits::CALLS_PER_REPLY));
    let mut results = match calls {
        [call] => vec![tools.dispatch(cx, call).await],
        calls => {
            let (tools, cx) = (Arc::new(tools.clone()), Arc::new(cx.clone()));
            // Spawned only when there is room, so that no more than that many run.
            let running = stream::iter(calls.to_vec()).map(move |call| {
                let (tools, cx) = (Arc::clone(&tools), Arc::clone(&cx));
                async move {
                    AbortOnDropHandle::new(tokio::spawn(async move { tools.dispatch(&cx, &call).await })).await.ok()
                }
            });
            running.buffered(limits::PARALLEL_TOOL_CALLS).filter_map(async |result| result).collect().await
        }
    };
    let most = limits::CALLS_PER_REPLY;
    results.extend(
        beyond.iter().map(|call| ToolResult::error(&call.id, format!("at most {most} calls of one reply are run"))),
    );
    results
}

/// Tells of the pieces of a reply, where they may be seen, and remembers what they cost.
struct Watcher {
    cx: RunCx,
    shown: bool,
    usage: Mutex<Usage>,
}

impl Watcher {
    fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl DeltaTarget for Watcher {
    async fn take(&self, delta: Delta) {
        if let Delta::Usage(usage) = delta {
            *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
        }
        if self.shown {
            self.cx.events.emit(Event::ModelDelta { agent: self.cx.agent.clone(), delta }).await;
        }
    }
}
