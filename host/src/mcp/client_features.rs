//! What a server may ask of its client: a model, a person, the folders that are its business.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::filtered_transport::McpCallProgress;
use crate::{
    chat::{Message, StopReason},
    error::Fault,
    event::RunCx,
    limits,
};

/// What a server may ask; by default nothing. It may do so only during a call, [`limits::MCP_ASKS_PER_CALL`] times in one
/// and [`limits::MCP_ASKS_PER_MINUTE`] in a minute; folders it may ask for at any time.
#[derive(Clone, Default)]
pub struct McpClientFeatures {
    /// Has a model reply.
    pub sampler: Option<Arc<dyn Sampler>>,
    /// Has a person fill in a form.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// The folders that it is told of, and told when they change; the first [`limits::MCP_ROOTS`].
    pub roots: Option<watch::Receiver<Arc<[McpRoot]>>>,
}

impl fmt::Debug for McpClientFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sampler, elicitor, roots) = (self.sampler.is_some(), self.elicitor.is_some(), self.roots.is_some());
        write!(f, "Asking {{ sampler: {sampler}, elicitor: {elicitor}, roots: {roots} }}")
    }
}

/// Who asks, and during which call.
#[derive(Debug, Clone)]
pub struct ServerRequestOrigin {
    /// The server.
    pub server: Arc<str>,
    /// In whose name the call is made.
    pub run: RunCx,
    /// The call's id.
    pub call: String,
}

/// Has a model reply to a server. Dropping the future cancels that.
#[async_trait]
pub trait Sampler: Send + Sync {
    /// One reply.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which the server is told.
    async fn sample(&self, asked: &ServerRequestOrigin, request: SamplingRequest) -> Result<SamplingResult, Fault>;
}

/// What a server wants a model to reply to. At most [`limits::MCP_ASK_BYTES`] of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingRequest {
    /// Instructions.
    pub system: Option<String>,
    /// The conversation, the server's own; its media have their bytes.
    pub messages: Vec<Message>,
    /// The longest reply.
    pub max_tokens: u32,
    /// How free the reply is.
    pub temperature: Option<f32>,
    /// Texts that end it.
    pub stop: Vec<String>,
    /// Names, or parts of names, of models that it would like, the best first.
    pub models: Vec<String>,
}

/// What a model replied to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplingResult {
    /// Its words.
    pub text: String,
    /// Which model.
    pub model: String,
    /// Why it ended.
    pub stop: StopReason,
}

/// Has a person answer a server. Dropping the future withdraws the question.
#[async_trait]
pub trait Elicitor: Send + Sync {
    /// One answer.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which the server is told.
    async fn elicit(
        &self,
        asked: &ServerRequestOrigin,
        question: ElicitationRequest,
    ) -> Result<ElicitationResult, Fault>;
}

/// A form that a server wants filled in. At most [`limits::MCP_ASK_BYTES`] of it.
#[derive(Debug, Clone)]
pub struct ElicitationRequest {
    /// What it says for the person.
    pub message: String,
    /// JSON Schema of the form: an object of texts, numbers, choices.
    pub schema: Box<RawValue>,
}

impl ElicitationRequest {
    /// What the form holds before anybody has filled it in: the defaults of its fields.
    pub fn defaults(&self) -> BTreeMap<String, Value> {
        #[derive(Default, Deserialize)]
        struct ElicitationFormSchema {
            #[serde(default)]
            properties: BTreeMap<String, Value>,
        }
        let form: ElicitationFormSchema = serde_json::from_str(self.schema.get()).unwrap_or_default();
        let fields = form.properties.into_iter();
        fields.filter_map(|(name, mut field)| Some((name, field.get_mut("default")?.take()))).collect()
    }
}

/// What a person did with a form.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationResult {
    /// Filled it in.
    Accept(BTreeMap<String, Value>),
    /// Said no.
    Decline,
    /// Said nothing.
    Cancel,
}

/// A folder that is a server's business.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct McpRoot {
    /// Where it is: a `file://` URL.
    pub uri: String,
    /// A name to show.
    pub name: Option<String>,
}

/// A call that is under way, as those know it who stand around it.
#[derive(Debug)]
pub(super) struct McpCallCx {
    pub run: RunCx,
    pub call: String,
    pub progress: watch::Sender<Option<McpCallProgress>>,
    /// Cancelled when nobody waits for it any more.
    pub over: CancellationToken,
    asks: AtomicU32,
}

impl McpCallCx {
    pub fn new(run: RunCx, call: String) -> Arc<Self> {
        let (progress, over, asks) = (watch::Sender::new(None), CancellationToken::new(), AtomicU32::new(0));
        Arc::new(Self { run, call, progress, over, asks })
    }

    pub fn is_of_run_of(&self, other: &Self) -> bool {
        self.run.run == other.run.run && self.run.agent == other.run.agent
    }

    /// Whether it may ask once more.
    pub fn may_ask(&self) -> bool {
        self.asks.fetch_add(1, Ordering::Relaxed) < limits::MCP_ASKS_PER_CALL
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_has_its_defaults_before_it_is_filled_in() {
        for (schema, defaults) in [
            (
                json!({"type": "object", "properties": {
                    "name": {"type": "string", "default": "Ada"}, "age": {"type": "integer"},
                    "tags": {"type": "array", "default": ["a"]}, "sure": {"type": "boolean", "default": false},
                }}),
                json!({"name": "Ada", "tags": ["a"], "sure": false}),
            ),
            (json!({"type": "object"}), json!({})),
            (json!({"properties": {"odd": 1}}), json!({})),
            (json!({"properties": []}), json!({})),
        ] {
            let schema = serde_json::value::to_raw_value(&schema).unwrap();
            let form = ElicitationRequest { message: String::new(), schema };
            assert_eq!(json!(form.defaults()), defaults, "{}", form.schema);
        }
    }
}
