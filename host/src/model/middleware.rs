use std::{io, sync::OnceLock, time::Duration};

use async_trait::async_trait;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Completion, CompletionRequest, ToolChoice};
use crate::{
    capability::NameSet,
    error::{Fault, OnFailure},
    event::RunCx,
};

/// Stands around each request to a model: retry, cache, fallback, router, redaction of what goes out. A pair of pure steps,
/// with bytes handed from the first to the second.
#[async_trait]
pub trait ModelMiddleware: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// The models of the config to which it may send requests, beside the one that was chosen.
    fn models(&self) -> &NameSet;

    /// Whether it may put other words in place of a reply. While one may, nobody is shown a reply before it is whole.
    fn may_replace(&self) -> bool {
        true
    }

    /// Whether a run goes on if it fails.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Stop
    }

    /// Before a request.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if it could not do its work; [`ModelMiddleware::on_failure`] says what that means.
    async fn before(&self, cx: &RunCx, sending: &ModelRequestAttempt<'_>) -> Result<RequestVerdict, Fault>;

    /// After a request, and after each further attempt.
    ///
    /// # Errors
    ///
    /// As [`ModelMiddleware::before`].
    async fn after(
        &self,
        cx: &RunCx,
        sending: &ModelRequestAttempt<'_>,
        reply: Result<&Completion, &Fault>,
        state: Vec<u8>,
    ) -> Result<ReplyVerdict, Fault>;
}

/// A request that is about to be sent, or was.
pub struct ModelRequestAttempt<'a> {
    /// The model's name in the config.
    pub model: &'a str,
    /// The request, as the middlewares before this one left it.
    pub request: &'a CompletionRequest,
    /// Attempts before this one that this middleware asked to repeat.
    pub attempt: u32,
    digest: &'a OnceLock<String>,
}

impl<'a> ModelRequestAttempt<'a> {
    /// Of this request. `digest` keeps its [digest](ModelRequestAttempt::digest), once somebody has asked for it.
    pub fn new(model: &'a str, request: &'a CompletionRequest, attempt: u32, digest: &'a OnceLock<String>) -> Self {
        Self { model, request, attempt, digest }
    }

    /// SHA-256, in hexadecimal, of the request without its model: equal requests, equal digests.
    pub fn digest(&self) -> &str {
        self.digest.get_or_init(|| digest(self.request))
    }
}

/// What to do with a request.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum RequestVerdict {
    /// Send it, to `model` in place of the one that was chosen, with `request` in its place, where there are such; `state`
    /// is for `after`.
    Proceed { model: Option<String>, request: Option<CompletionRequest>, state: Vec<u8> },
    /// Do not send: this is the answer.
    Answer(Completion),
    /// Do not send: fail.
    Reject(Fault),
}

/// What to do with a reply.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum ReplyVerdict {
    /// Leave it.
    Accept,
    /// This instead.
    Replace(Completion),
    /// Fail.
    Reject(Fault),
    /// Send again after `delay`, to `model` in place of the one before where there is such.
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
        // So that no two lists of values run together to the same bytes.
        hash.0.update(b"\n");
    }
    let CompletionRequest { messages, tools, tool_choice, max_output_tokens, temperature, response_schema, meta } =
        request;
    let mut hash = DigestWriter(Sha256::new());
    add(&mut hash, &messages.len());
    for entry in messages.iter() {
        hash.0.update(entry.digest());
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
    hash.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{ChatSnapshot, Message};

    #[test]
    fn equal_requests_have_equal_digests_and_others_have_others() {
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
