use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    capability::{NameSet, Power, Powers},
    chat::{ChatSnapshot, MessageReplacement, ToolResultContent, ToolSpec},
    error::{Fault, OnFailure},
    event::{EffectEditKind, RunCx},
    model::{Completion, CompletionRequest, Usage},
};

/// An effect: looks at the agent's chat once per turn and answers with changes to it. It is a pure step whose state the
/// host keeps.
#[async_trait]
pub trait Effect: Send + Sync {
    /// Returns its name, for people.
    fn name(&self) -> &str;

    /// Returns the phases in which it is called.
    fn phases(&self) -> &[EffectPhase];

    /// Returns the powers that it was granted.
    fn powers(&self) -> &Powers;

    /// Returns the models of the config that it may ask, in addition to the agent's own.
    fn models(&self) -> &NameSet {
        &NO_MODELS
    }

    /// Returns the consequence of a failure for the run.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Stop
    }

    /// Returns an identifier of its parameters that is the same in every process. State that was saved under other
    /// parameters is not restored. `None` if the effect has no parameters.
    fn setup(&self) -> Option<&str> {
        None
    }

    /// Looks at the chat and answers. `chat` does not change during the call; `tools` are the agent's before any are
    /// hidden; `state` is what the last call returned, empty at first.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] if it could not do its work; [`Effect::on_failure`] decides what that means for the run.
    async fn eval(
        &self,
        cx: &RunCx,
        moment: &EffectInput,
        chat: &ChatSnapshot,
        tools: &Arc<[Arc<ToolSpec>]>,
        state: Vec<u8>,
    ) -> Result<EffectStep, Fault>;
}

static NO_MODELS: LazyLock<NameSet> = LazyLock::new(NameSet::default);

/// An effect made from a closure that sees the conversation and answers with edits, within the powers that it is given.
///
/// ```
/// use shelly_core::{agent::{EffectEdit, EffectFn, EffectPhase}, capability::Power};
///
/// let hurry = EffectFn::new("hurry", EffectPhase::BeforeModel, [Power::Note], |moment, _chat| {
///     Ok(if moment.iteration == 10 { vec![EffectEdit::Note("Hurry up.".into())] } else { vec![] })
/// });
/// ```
pub struct EffectFn<F> {
    name: String,
    phases: [EffectPhase; 1],
    powers: Powers,
    eval: F,
}

impl<F: Fn(&EffectInput, &ChatSnapshot) -> Result<Vec<EffectEdit>, Fault> + Send + Sync> EffectFn<F> {
    /// Creates an effect that calls `eval` once a turn, in this phase.
    pub fn new(name: impl Into<String>, phase: EffectPhase, powers: impl IntoIterator<Item = Power>, eval: F) -> Self {
        Self { name: name.into(), phases: [phase], powers: powers.into_iter().collect(), eval }
    }
}

#[async_trait]
impl<F: Fn(&EffectInput, &ChatSnapshot) -> Result<Vec<EffectEdit>, Fault> + Send + Sync> Effect for EffectFn<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn phases(&self) -> &[EffectPhase] {
        &self.phases
    }

    fn powers(&self) -> &Powers {
        &self.powers
    }

    async fn eval(
        &self,
        _: &RunCx,
        moment: &EffectInput,
        chat: &ChatSnapshot,
        _: &Arc<[Arc<ToolSpec>]>,
        state: Vec<u8>,
    ) -> Result<EffectStep, Fault> {
        let edits = (self.eval)(moment, chat)?;
        Ok(EffectStep { state, action: EffectAction::Edits(edits), wake: None })
    }
}

/// The point in the agent's turn at which effects are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectPhase {
    /// The next request is about to be built; every call has its result.
    BeforeModel,
    /// The reply is in the chat and its calls have not run yet. A reply that [says nothing](crate::chat::Message::says_nothing) is not
    /// added to the chat.
    AfterModel,
}

/// The facts that an effect receives with every call.
#[derive(Debug, Clone)]
pub struct EffectInput {
    /// The phase of the turn.
    pub phase: EffectPhase,
    /// The number of turns before this one.
    pub iteration: u32,
    /// The estimated tokens of the next request: chat and tools.
    pub request_tokens: u64,
    /// The context window of the model, in tokens, if it is known.
    pub context_window: Option<u64>,
    /// Usage of the last completion of this run.
    pub last_usage: Option<Usage>,
    /// Usage of this agent in this run.
    pub run_usage: Usage,
    /// Time that this run has waited for the model.
    pub model_time: Duration,
    /// Time since the run began.
    pub elapsed: Duration,
    /// The answer to an [`EffectAction::AskModel`], only in the call that follows it.
    pub reply: Option<Result<Completion, Fault>>,
}

/// One change to the conversation or to the run.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum EffectEdit {
    /// Adds a user message; after the results if calls are open.
    Note(String),
    /// Replaces the result of a tool call.
    ReplaceResult { call_id: String, content: Vec<ToolResultContent> },
    /// Replaces or removes messages.
    Replace(MessageReplacement),
    /// Hides tools until the effect is next called before the model is asked. When a tool is added later, the effect is
    /// called before a model is shown that tool, regardless of its [`Wake`].
    HideTools(Vec<String>),
    /// Ends the run as failed.
    Stop { code: String, message: String },
    /// An edit that this host does not know.
    Unknown(String),
}

impl EffectEdit {
    /// Returns its kind in events.
    pub fn kind(&self) -> EffectEditKind {
        match self {
            Self::Note(_) => EffectEditKind::Note,
            Self::ReplaceResult { .. } => EffectEditKind::ReplaceResult,
            Self::Replace(_) => EffectEditKind::Replace,
            Self::HideTools(_) => EffectEditKind::HideTools,
            Self::Stop { .. } => EffectEditKind::Stop,
            Self::Unknown(_) => EffectEditKind::Unknown,
        }
    }

    /// Returns the powers that the edit requires.
    pub(crate) fn needs(&self) -> &'static [Power] {
        match self {
            Self::Note(_) => &[Power::Note],
            Self::ReplaceResult { .. } => &[Power::EditResults],
            // Parts that an effect may not see are blank to it, and it would write the blanks back.
            Self::Replace(_) => &[Power::Rewrite, Power::SeeMessages, Power::SeeArguments, Power::SeeResults],
            Self::HideTools(_) => &[Power::HideTools],
            Self::Stop { .. } => &[Power::Stop],
            Self::Unknown(_) => &[],
        }
    }
}

/// A question to a model. Its tools belong to the effect: the host runs none of them.
#[derive(Debug, Clone)]
pub struct ModelQuery {
    /// The name of a model in the config; `None`: the agent's own model.
    pub model: Option<String>,
    /// The request.
    pub request: CompletionRequest,
}

/// The action that an effect returns.
#[derive(Debug, Clone)]
pub enum EffectAction {
    /// Apply these edits; in most calls there are none.
    Edits(Vec<EffectEdit>),
    /// Ask a model, then call the effect again.
    AskModel(Box<ModelQuery>),
}

/// The conditions that wake an effect; the first one that holds does. Without any condition, the effect is not called again
/// in this run. An effect that may hide tools is also woken by a tool that it has not seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wake {
    /// Wakes from this iteration on.
    pub iteration: Option<u32>,
    /// Wakes when the next request is estimated at this many tokens.
    pub request_tokens: Option<u64>,
    /// Wakes when the run has used this many tokens.
    pub run_tokens: Option<u64>,
    /// Wakes when the run has waited this long for the model.
    pub model_time: Option<Duration>,
}

impl Wake {
    pub(crate) fn is_due(&self, moment: &EffectInput) -> bool {
        self.iteration.is_some_and(|at| moment.iteration >= at)
            || self.request_tokens.is_some_and(|at| moment.request_tokens >= at)
            || self.run_tokens.is_some_and(|at| moment.run_usage.total() >= at)
            || self.model_time.is_some_and(|at| moment.model_time >= at)
    }
}

/// The answer of an effect.
#[derive(Debug, Clone)]
pub struct EffectStep {
    /// The state for the next call.
    pub state: Vec<u8>,
    /// The action to take.
    pub action: EffectAction,
    /// The conditions for the next call; `None`: the next of its phases.
    pub wake: Option<Wake>,
}
