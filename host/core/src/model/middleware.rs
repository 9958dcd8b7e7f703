use std::{io, sync::OnceLock, time::Duration};

use async_trait::async_trait;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Completion, CompletionRequest, ToolChoice};
use crate::{
    capability::NameSet,
    digest::Sha256Digest,
    error::{Fault, OnFailure},
    event::RunCx,
};

/// A middleware around each request to a model, for retries, caching, fallback, routing or redaction of outgoing data. It
/// consists of two pure steps; the first hands bytes to the second.
#[async_trait]
pub trait ModelMiddleware: Send + Sync {
    /// Returns the middleware's name for messages.
    fn name(&self) -> &str;

    /// Returns the models of the config to which the middleware may send requests, in addition to the chosen one.
    fn models(&self) -> &NameSet;

    /// Returns `true` if the middleware may replace a reply. In that case no deltas are shown before the reply is whole.
    fn may_replace(&self) -> bool {
        true
    }

    /// Returns the effect of the middleware's failure on the run.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Stop
    }

    /// Runs before a request.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if the middleware failed; [`ModelMiddleware::on_failure`] determines the effect.
    async fn before(&self, cx: &RunCx, sending: &ModelRequestAttempt<'_>) -> Result<RequestVerdict, Fault>;

    /// Runs after a request, and after each further attempt.
    ///
    /// # Errors
    ///
    /// The errors of [`ModelMiddleware::before`].
    async fn after(
        &self,
        cx: &RunCx,
        sending: &ModelRequestAttempt<'_>,
        reply: Result<&Completion, &Fault>,
        state: Vec<u8>,
    ) -> Result<ReplyVerdict, Fault>;
}

/// A request that is about to be sent, or was sent.
pub struct ModelRequestAttempt<'a> {
    /// The model's name in the config.
    pub model: &'a str,
    /// The request, as the earlier middlewares left it.
    pub request: &'a CompletionRequest,
    /// The number of earlier attempts that this middleware asked to repeat.
    pub attempt: u32,
    digest: &'a OnceLock<String>,
}

impl<'a> ModelRequestAttempt<'a> {
    /// Wraps a request. `digest` caches its [digest](ModelRequestAttempt::digest) once it is computed.
    pub fn new(model: &'a str, request: &'a CompletionRequest, attempt: u32, digest: &'a OnceLock<String>) -> Self {
        Self { model, request, attempt, digest }
    }

    /// Returns the hexadecimal SHA-256 of the request without its model. Equal requests have equal digests.
    pub fn digest(&self) -> &str {
        self.digest.get_or_init(|| digest(self.request))
    }
}

/// The decision about a request.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum RequestVerdict {
    /// Send the request; with `model` or `request`, in place of the chosen model or the original request. `state` is handed
    /// to `after`.
    Proceed { model: Option<String>, request: Option<CompletionRequest>, state: Vec<u8> },
    /// Skip the request and use this reply.
    Answer(Completion),
    /// Skip the request and fail.
    Reject(Fault),
}

/// The decision about a reply.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum ReplyVerdict {
    /// Keep the reply.
    Accept,
    /// Use this reply instead.
    Replace(Completion),
    /// Fail.
    Reject(Fault),
    /// Send the request again after `delay`; with `model`, in place of the model of the last attempt.
    Retry { model: Option<String>, delay: Duration, state: Vec<u8> },
}

fn digest(request: &CompletionRequest) -> String {
    struct DigestWriter(Sha256);
    impl io::Write for DigestWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    fn add(hash: &mut DigestWriter, value: &impl Serialize) {
        serde_json::to_writer(&mut *hash, value).expect("a hash takes everything");
        // Separates the values, so that no two lists of values yield the same bytes.
        hash.0.update(b"\n");
    }
    let CompletionRequest { messages, tools, tool_choice, max_output_tokens, temperature, response_schema, meta } =
        request;
    let mut hash = DigestWriter(Sha256::new());
    add(&mut hash, &messages.len());
    for entry in messages.iter() {
        hash.0.update(entry.digest().0);
    }
    for tool in tools.iter() {
        add(&mut hash, &(&tool.name, &tool.description, &tool.input_schema));
    }
    let choice = match tool_choice {
        ToolChoice::Auto => (0, ""),
        ToolChoice::Never => (1, ""),
        ToolChoice::Required => (2, ""),
        ToolChoice::Tool(name) => (3, &**name),
    };
    add(&mut hash, &(choice, max_output_tokens, temperature, response_schema, meta));
    Sha256Digest::from(hash.0).hex()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{ChatSnapshot, Message};

    #[test]
    fn request_digest_is_equal_only_for_equal_requests() {
        let request = |texts: &[&str]| {
            let messages = texts.iter().map(|text| Message::user(*text)).collect();
            CompletionRequest::new(ChatSnapshot::from_messages(messages).unwrap(), [].into())
        };
        let one = || request(&["a", "b"]);
        let different = [
            one(),
            request(&["ab"]),
            request(&["a", "b", "c"]),
            request(&["b", "a"]),
            CompletionRequest { temperature: Some(0.5), ..one() },
            CompletionRequest { max_output_tokens: Some(5), ..one() },
            CompletionRequest { tool_choice: ToolChoice::Never, ..one() },
            CompletionRequest { response_schema: Some("{}".into()), ..one() },
            CompletionRequest { meta: vec![("k".into(), "v".into())], ..one() },
        ];
        let digests: std::collections::HashSet<_> = different.iter().map(digest).collect();
        assert_eq!(digests.len(), different.len());
        assert_eq!(digest(&one()), digest(&one()));
        assert_eq!(digest(&one()).len(), 64);
    }
}
