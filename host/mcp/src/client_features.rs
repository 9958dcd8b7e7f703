//! Features that a client offers to a server: sampling, elicitation, roots.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::sync::watch;

use shelly_core::{
    chat::{Message, StopReason},
    error::Fault,
    event::RunCx,
};

/// The features that a server may use; none by default. A server may sample and elicit only during a call, at most
/// [`limits::MCP_ASKS_PER_CALL`] times in one call and [`limits::MCP_ASKS_PER_MINUTE`] times in a minute. It may ask for
/// roots at any time.
///
/// [`limits::MCP_ASKS_PER_CALL`]: shelly_core::limits::MCP_ASKS_PER_CALL
/// [`limits::MCP_ASKS_PER_MINUTE`]: shelly_core::limits::MCP_ASKS_PER_MINUTE
#[derive(Clone, Default)]
pub struct McpClientFeatures {
    /// Answers sampling requests with a model.
    pub sampler: Option<Arc<dyn Sampler>>,
    /// Answers elicitation requests with a person.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// The roots, at most the first [`limits::MCP_ROOTS`]. The server is notified when they change.
    ///
    /// [`limits::MCP_ROOTS`]: shelly_core::limits::MCP_ROOTS
    pub roots: Option<watch::Receiver<Arc<[McpRoot]>>>,
}

impl fmt::Debug for McpClientFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sampler, elicitor, roots) = (self.sampler.is_some(), self.elicitor.is_some(), self.roots.is_some());
        write!(f, "Asking {{ sampler: {sampler}, elicitor: {elicitor}, roots: {roots} }}")
    }
}

/// The server and the call from which a request comes.
#[derive(Debug, Clone)]
pub struct ServerRequestOrigin {
    /// The server.
    pub server: Arc<str>,
    /// The run that makes the call.
    pub run: RunCx,
    /// The call's id.
    pub call: String,
}

/// Lets a model answer a server. Dropping the future cancels the request.
#[async_trait]
pub trait Sampler: Send + Sync {
    /// Returns one reply.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which is sent to the server.
    async fn sample(&self, asked: &ServerRequestOrigin, request: SamplingRequest) -> Result<SamplingResult, Fault>;
}

/// A server's request for a model's reply. At most [`limits::MCP_ASK_BYTES`].
///
/// [`limits::MCP_ASK_BYTES`]: shelly_core::limits::MCP_ASK_BYTES
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingRequest {
    /// The system prompt.
    pub system: Option<String>,
    /// The conversation that the server supplies; its media hold their bytes.
    pub messages: Vec<Message>,
    /// The maximum length of the reply, in tokens.
    pub max_tokens: u32,
    /// The sampling temperature.
    pub temperature: Option<f32>,
    /// Stop sequences.
    pub stop: Vec<String>,
    /// Names, or parts of names, of the models that the server prefers, the best first.
    pub models: Vec<String>,
}

/// A model's reply to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplingResult {
    /// The text of the reply.
    pub text: String,
    /// The name of the model.
    pub model: String,
    /// The reason why the reply ended.
    pub stop: StopReason,
}

/// Lets a person answer a server. Dropping the future withdraws the question.
#[async_trait]
pub trait Elicitor: Send + Sync {
    /// Returns one answer.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which is sent to the server.
    async fn elicit(
        &self,
        asked: &ServerRequestOrigin,
        question: ElicitationRequest,
    ) -> Result<ElicitationResult, Fault>;
}

/// A form that a server wants filled in. At most [`limits::MCP_ASK_BYTES`].
///
/// [`limits::MCP_ASK_BYTES`]: shelly_core::limits::MCP_ASK_BYTES
#[derive(Debug, Clone)]
pub struct ElicitationRequest {
    /// The server's message to the person.
    pub message: String,
    /// The JSON Schema of the form: an object of texts, numbers and choices.
    pub schema: Box<RawValue>,
}

impl ElicitationRequest {
    /// Returns the default values of the form's fields, by name.
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

/// A person's answer to a form.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationResult {
    /// The person filled in the form.
    Accept(BTreeMap<String, Value>),
    /// The person declined.
    Decline,
    /// The person gave no answer.
    Cancel,
}

/// A folder that a server may work on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct McpRoot {
    /// Its `file://` URL.
    pub uri: String,
    /// A display name.
    pub name: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elicitation_form_returns_field_defaults() {
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
