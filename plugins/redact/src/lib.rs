//! A run middleware that replaces secrets by `[redacted]` in an agent's final reply, and in the message of a failure,
//! which may be the words of a model that declined to answer.
//!
//! Params, with their defaults: `{"what": ["secrets"], "extra": []}`. `what` lists classes out of `secrets` (keys and
//! tokens of well-known shapes, private keys, passwords in assignments), `emails` and `cards` (payment card numbers).
//! `extra` lists texts to redact wherever they occur.
//!
//! Detection is a best effort: a secret of unknown shape is not found. Watchers of a streamed reply may already have seen
//! a secret. `redact-requests` keeps secrets from models; `redact-results` keeps secrets in tool results out of the
//! conversation. They are separate plugins, because the first needs powers that this one does not, and the second costs
//! time at every tool call.

use guest_kit::secrets::Net;
use shelly_plugin::{
    Error, Message, Part, info,
    run_middleware::{AfterDecision, BeforeDecision, Outcome, Pass, RunMiddleware},
    types::{Retry, RunContext},
};

shelly_plugin::export!(run_middleware: Redact);

struct Redact;

impl RunMiddleware for Redact {
    fn before(_cx: RunContext, _input: Vec<Message>) -> Result<BeforeDecision, Error> {
        // Invalid params are reported before an answer costs anything.
        Net::of_params()?;
        Ok(BeforeDecision::Proceed(Pass { input: None, state: Vec::new() }))
    }

    fn after(_cx: RunContext, outcome: Outcome, _state: Vec<u8>) -> Result<AfterDecision, Error> {
        let net = Net::of_params()?;
        let (decision, count) = match outcome.reply {
            Ok(reply) => {
                let (reply, count) = redact(reply, &net);
                (AfterDecision::Replace(reply), count)
            }
            Err(error) => {
                let (clean, count) = net.redact(error.message());
                (AfterDecision::Reject(reworded(error, clean)), count)
            }
        };
        if count == 0 {
            return Ok(AfterDecision::Accept);
        }
        // The log contains the number of secrets, never the secrets.
        info!("secrets redacted from the answer: {count}");
        Ok(decision)
    }
}

/// Returns the message without its secrets, and their number.
fn redact(mut reply: Message, net: &Net) -> (Message, usize) {
    let mut count = 0;
    for part in &mut reply.parts {
        if let Part::Text(text) = part {
            let (clean, found) = net.redact(text);
            *text = clean;
            count += found;
        }
    }
    (reply, count)
}

/// Returns the error with another message.
fn reworded(error: Error, message: String) -> Error {
    match error {
        Error::Invalid(_) => Error::Invalid(message),
        Error::Denied(_) => Error::Denied(message),
        Error::NotFound(_) => Error::NotFound(message),
        Error::TooLarge(_) => Error::TooLarge(message),
        Error::Exhausted(_) => Error::Exhausted(message),
        Error::RateLimited(retry) => Error::RateLimited(Retry { message, ..retry }),
        Error::Unavailable(retry) => Error::Unavailable(Retry { message, ..retry }),
        Error::Timeout(_) => Error::Timeout(message),
        Error::Other(_) => Error::Other(message),
    }
}

#[cfg(test)]
mod tests {
    use guest_kit::secrets::What;
    use shelly_plugin::types::Role;

    use super::*;

    #[test]
    fn reply_redaction_changes_only_texts_with_secrets() {
        let clean = Message::new(Role::Assistant, "All is well.");
        let net = Net::new(vec![What::Secrets], vec!["blue sky".into()]).unwrap();
        assert_eq!(redact(clean.clone(), &net), (clean, 0));
        let (reply, count) = redact(Message::new(Role::Assistant, "It is blue sky."), &net);
        assert_eq!((reply.text().as_str(), count), ("It is [redacted].", 1));
    }
}
