//! Helpers of the agent benchmarks: models in this process, agents as a config would build them, and the clock of the
//! processor.

use std::{sync::Arc, sync::LazyLock, time::Duration};

use async_trait::async_trait;
use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::Deserialize;
use shelly_host::{
    agent::{Agent, EffectFn, EffectPhase},
    capability::Power,
    chat::{Message, Part, Role, StopReason, ToolCall, ToolSpec, Usage},
    error::Fault,
    event::RunCx,
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo},
    tool::{self, FnTool, Tool, ToolCx, ToolOutput},
};

/// The next reply of a model.
pub enum Says {
    /// A call of a tool: its name and arguments.
    Call(&'static str, String),
    /// The answer.
    Answer(&'static str),
}

/// A model in this process, whose next reply follows from the conversation alone.
pub struct Model<F> {
    info: ModelInfo,
    delay: Duration,
    next: F,
}

impl<F: Fn(&CompletionRequest) -> Says + Send + Sync + 'static> Model<F> {
    pub fn completer(delay: Duration, next: F) -> Arc<dyn Completer> {
        let info = ModelInfo { model: "bench-1".into(), ..ModelInfo::named("bench") };
        Arc::new(Self { info, delay, next })
    }
}

#[async_trait]
impl<F: Fn(&CompletionRequest) -> Says + Send + Sync> Completer for Model<F> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, _: &RunCx, request: &CompletionRequest, _: &DeltaSink) -> Result<Completion, Fault> {
        if self.delay > Duration::ZERO {
            tokio::time::sleep(self.delay).await;
        }
        let (part, stop) = match (self.next)(request) {
            Says::Answer(text) => (Part::Text(text.into()), StopReason::EndTurn),
            Says::Call(name, arguments) => {
                // A new id in each chat, as vendors give them.
                let id = format!("call_{:08}", request.messages.len());
                (Part::ToolCall(ToolCall { id, name: name.into(), arguments, meta: vec![] }), StopReason::ToolCalls)
            }
        };
        let usage = Usage { input_tokens: request.messages.tokens(), output_tokens: 20, ..Usage::default() };
        Ok(Completion { parts: vec![part], stop, usage, model: "bench-1".into(), meta: vec![] })
    }
}

/// What `echo` is given.
#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say.
    text: String,
    /// How often.
    #[serde(default)]
    times: u32,
}

/// Returns a native tool with arguments; its schema is built once in a process, as those of the host's own tools are.
fn echo() -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> =
        LazyLock::new(|| tool::spec::<Echo>("echo", "Says what it is told, as often as you like.").into());
    FnTool::with_spec(Arc::clone(&SPEC), |_: ToolCx, args: Echo| async move {
        Ok::<_, Fault>(ToolOutput::from(args.text.repeat(args.times.max(1) as usize)))
    })
}

/// Returns a call of `echo`.
pub fn say_hello() -> Says {
    Says::Call("echo", r#"{"text":"hello, how are you today?","times":1}"#.into())
}

/// Returns `true` if the newest message is the result of a tool.
pub fn has_result(request: &CompletionRequest) -> bool {
    request.messages.last().is_some_and(|entry| entry.message.role == Role::Tool)
}

/// Returns an agent as a config builds one: with a description, instructions and a tool.
pub fn agent(name: &'static str, model: &Arc<dyn Completer>) -> Agent {
    let mut agent = Agent::new(name, "Use your tools. Report what you found, with names and figures.", model.clone())
        .with_description("Looks things up and says what it found")
        .with_tool(echo());
    agent.options.max_iterations = 10_000;
    agent
}

/// Returns an agent with five effects, which look at the chat in every turn and change nothing.
pub fn with_effects(mut agent: Agent) -> Agent {
    for (name, phase) in [
        ("trim", EffectPhase::BeforeModel),
        ("compact", EffectPhase::BeforeModel),
        ("mask", EffectPhase::BeforeModel),
        ("loops", EffectPhase::AfterModel),
        ("reflect", EffectPhase::AfterModel),
    ] {
        agent = agent.with_effect(EffectFn::new(name, phase, [Power::Note], |moment, chat| {
            let newest = chat.since(chat.len().saturating_sub(6));
            let failed = newest.flat_map(|entry| entry.message.tool_results()).any(|result| result.is_error);
            match failed || moment.request_tokens > 100_000_000 {
                true => Err(Fault::other("this does not happen")),
                false => Ok(vec![]),
            }
        }));
    }
    agent
}

/// Returns the task of the agents.
pub fn task() -> Vec<Message> {
    vec![Message::user("Find out how often the word `bound` stands in the documentation, and say where.")]
}

/// Returns the processor time of all threads of this process, the system's share included.
pub fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("less than a second"))
}
