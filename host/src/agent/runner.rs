use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;

use super::{
    effect::{Effect, Effects, bounded_state},
    middleware::{AfterDecision, BeforeDecision, Middleware, Outcome},
    prompt,
};
use crate::{
    chat::{Chat, EditError, Message, Part, Role},
    error::{ErrorKind, Fault},
    event::{Event, RunCx},
    limits,
    model::{Completer, Usage},
    tool::ToolBox,
};

/// A model with instructions and tools of its own.
#[derive(Clone)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// What it is good for.
    pub description: String,
    /// What it is told to do and how.
    pub instructions: String,
    /// The model.
    pub completer: Arc<dyn Completer>,
    /// Its tools, and nobody else's.
    pub tools: ToolBox,
    /// What looks at its chat in every turn, in order.
    pub effects: Vec<Arc<dyn Effect>>,
    /// What stands around its runs, outermost first.
    pub middleware: Vec<Arc<dyn Middleware>>,
    /// Turns of one run.
    pub max_iterations: u32,
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The final message.
    pub message: Message,
    /// Turns of the loop, all attempts together.
    pub iterations: u32,
    /// Tokens of all completions.
    pub usage: Usage,
}

/// Why a run has no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum RunError {
    /// The model could not be asked.
    #[error("the model could not be asked")]
    Model(#[source] Fault),
    /// The loop came to its bound.
    #[error("no answer after {count} {unit}", count = .0, unit = if *.0 == 1 { "turn" } else { "turns" })]
    MaxIterations(u32),
    /// The conversation holds as much as one may.
    #[error("the conversation holds {} MiB, and there is no answer", limits::CHAT_BYTES >> 20)]
    ChatFull,
    /// A message of the input cannot stand in a conversation.
    #[error("the input cannot be put into the conversation")]
    Input(#[source] EditError),
    /// The reply was cut at the longest length that the model or the config allows.
    #[error("the model's reply was cut off before its end")]
    Cut,
    /// The reply has neither text nor calls: that is no answer.
    #[error("the model answered with nothing")]
    Empty,
    /// The model or its vendor declined to answer.
    #[error("the model declined to answer: {0}")]
    Refused(String),
    /// An effect ended the run.
    #[error("`{by}` stopped the run ({code}): {message}")]
    Stopped { by: String, code: String, message: String },
    /// An effect failed.
    #[error("effect `{name}` failed")]
    Effect {
        name: String,
        #[source]
        fault: Fault,
    },
    /// A middleware failed.
    #[error("middleware `{name}` failed")]
    Middleware {
        name: String,
        #[source]
        fault: Fault,
    },
    /// A middleware rejected the task or the answer.
    #[error("`{by}` rejected it")]
    Rejected {
        by: String,
        #[source]
        fault: Fault,
    },
}

impl RunError {
    /// What kind of failure it is: only a model that could not be asked is the provider's.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Model(_) => ErrorKind::Provider,
            _ => ErrorKind::Run,
        }
    }

    /// The failure as a middleware is told of it.
    fn as_fault(&self) -> Fault {
        match self {
            Self::Model(fault) | Self::Rejected { fault, .. } => fault.clone(),
            Self::MaxIterations(_) | Self::ChatFull | Self::Stopped { .. } => {
                Fault::Exhausted { message: self.to_string() }
            }
            Self::Cut => Fault::TooLarge { message: self.to_string() },
            Self::Empty => Fault::other(self.to_string()),
            Self::Input(error) => Fault::invalid(error.to_string()),
            Self::Effect { fault, .. } | Self::Middleware { fault, .. } => Fault::other(format!("{self}: {fault}")),
            Self::Refused(_) => Fault::Denied { message: self.to_string() },
        }
    }
}

/// One run of an agent, all its attempts together: what it works on and what it has spent.
pub(super) struct Run<'a> {
    pub agent: &'a Agent,
    pub cx: &'a RunCx,
    pub chat: &'a Chat,
    pub tool_names: Arc<[String]>,
    pub effects: Effects<'a>,
    pub started: Instant,
    pub iterations: u32,
    pub usage: Usage,
    pub last_usage: Option<Usage>,
    pub model_time: Duration,
}

impl Agent {
    /// An agent without tools, effects or middleware.
    pub fn new(name: impl Into<String>, instructions: impl Into<String>, completer: Arc<dyn Completer>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            instructions: instructions.into(),
            completer,
            tools: ToolBox::new(),
            effects: Vec::new(),
            middleware: Vec::new(),
            max_iterations: limits::MAX_ITERATIONS,
        }
    }

    /// Works on `input` in `chat` until there is an answer. An empty chat is given the system prompt first. Dropping the
    /// future cancels the run; the chat stays valid.
    ///
    /// # Errors
    ///
    /// [`RunError`]; the chat stays valid and holds what was done.
    pub async fn run(&self, cx: &RunCx, chat: &Chat, input: Vec<Message>) -> Result<Answer, RunError> {
        if chat.snapshot().is_empty() {
            let prompt = prompt::system_prompt(&self.name, &self.description, &self.instructions);
            chat.append(Message::text(Role::System, &self.name, prompt)).expect("the chat is empty");
        }
        let model = self.completer.info().model.clone();
        cx.events.emit(Event::RunStarted { run: cx.run.clone(), agent: cx.agent.clone(), model }).await;
        let mut run = Run::new(self, cx, chat);
        let reply = run.through_middleware(0, input).await;
        let reply = reply.and_then(|message| if says_nothing(&message) { Err(RunError::Empty) } else { Ok(message) });
        let (iterations, usage, duration) = (run.iterations, run.usage, run.started.elapsed());
        let error = reply.as_ref().err().map(ToString::to_string);
        let (run, agent) = (cx.run.clone(), cx.agent.clone());
        cx.events.emit(Event::RunFinished { run, agent, error, iterations, usage, duration }).await;
        Ok(Answer { message: reply?, iterations, usage })
    }
}

impl<'a> Run<'a> {
    fn new(agent: &'a Agent, cx: &'a RunCx, chat: &'a Chat) -> Self {
        Self {
            agent,
            cx,
            chat,
            tool_names: agent.tools.names().map(str::to_owned).collect(),
            effects: Effects::new(&agent.effects),
            started: Instant::now(),
            iterations: 0,
            usage: Usage::default(),
            last_usage: None,
            model_time: Duration::ZERO,
        }
    }

    /// The run as the middleware at `level` sees it; beyond the last one is the loop.
    fn through_middleware(&mut self, level: usize, input: Vec<Message>) -> BoxFuture<'_, Result<Message, RunError>> {
        Box::pin(async move {
            let (agent, cx) = (self.agent, self.cx);
            let Some(middleware) = agent.middleware.get(level) else {
                return self.attempt(input).await;
            };
            let name = middleware.name();
            let failed = |fault| RunError::Middleware { name: name.into(), fault };
            let rejected = |fault| RunError::Rejected { by: name.into(), fault };
            let acted = async |action| {
                let event = Event::MiddlewareActed { agent: cx.agent.clone(), middleware: name.into(), action };
                cx.events.emit(event).await;
            };
            let (mut input, mut state) = match middleware.before(cx, &input).await.map_err(failed)? {
                BeforeDecision::Proceed { input: None, state } => (input, bounded_state(state).map_err(failed)?),
                BeforeDecision::Proceed { input: Some(replaced), state } => {
                    let state = bounded_state(state).map_err(failed)?;
                    acted("replace-input").await;
                    (replaced, state)
                }
                BeforeDecision::Answer(message) => {
                    acted("answer").await;
                    return Ok(message);
                }
                BeforeDecision::Reject(fault) => {
                    acted("reject-input").await;
                    return Err(rejected(fault));
                }
            };
            let mut attempt = 0;
            loop {
                let before = self.usage;
                let reply = self.through_middleware(level + 1, input).await;
                let told = reply.as_ref().map_err(RunError::as_fault).cloned();
                let outcome = Outcome { reply: told, usage: self.usage - before, attempt };
                match middleware.after(cx, &outcome, state).await.map_err(failed)? {
                    AfterDecision::Accept => return reply,
                    AfterDecision::Replace(message) => {
                        acted("replace").await;
                        return Ok(message);
                    }
                    AfterDecision::Reject(fault) => {
                        acted("reject").await;
                        return Err(rejected(fault));
                    }
                    AfterDecision::Retry { feedback, delay, state: kept } => {
                        state = bounded_state(kept).map_err(failed)?;
                        if attempt == limits::MIDDLEWARE_RETRIES {
                            let message = format!("it asked for more than {attempt} further attempts");
                            return Err(rejected(Fault::Exhausted { message }));
                        }
                        acted("retry").await;
                        tokio::time::sleep(delay.min(limits::MIDDLEWARE_DELAY)).await;
                        input = feedback.map(|text| Message::note(name, text)).into_iter().collect();
                        attempt += 1;
                    }
                }
            }
        })
    }
}

/// Thoughts alone are no answer.
fn says_nothing(message: &Message) -> bool {
    message.parts.iter().all(|part| match part {
        Part::Text(text) => text.trim().is_empty(),
        Part::Thinking(_) => true,
        _ => false,
    })
}
