//! Replaces secrets in an agent's final reply by `[redacted]`: keys and tokens of well-known shapes, private keys,
//! passwords in assignments, and the texts listed in the params as `{"extra": ["…"]}`.
//!
//! It is a net, not a wall: what has no known shape passes. And whoever watches a reply while it is written may have
//! seen it already.

use serde::Deserialize;
use shelly_plugin::{
    Error, Message, Part, config, info,
    run_middleware::{AfterDecision, BeforeDecision, Outcome, Pass, RunMiddleware},
    types::RunContext,
};

mod scan;

shelly_plugin::export!(run_middleware: Redact);

struct Redact;

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// Texts to blot out wherever they occur.
    extra: Vec<String>,
}

impl RunMiddleware for Redact {
    fn before(_cx: RunContext, _input: Vec<Message>) -> Result<BeforeDecision, Error> {
        Ok(BeforeDecision::Proceed(Pass { input: None, state: Vec::new() }))
    }

    fn after(_cx: RunContext, outcome: Outcome, _state: Vec<u8>) -> Result<AfterDecision, Error> {
        let params: Params = config()?;
        let Ok(reply) = outcome.reply else {
            return Ok(AfterDecision::Accept);
        };
        let (reply, count) = redact(reply, &params.extra)?;
        if count == 0 {
            return Ok(AfterDecision::Accept);
        }
        // How many, never which.
        info!("secrets blotted out: {count}");
        Ok(AfterDecision::Replace(reply))
    }
}

/// The message without its secrets, and how many there were.
fn redact(mut reply: Message, extra: &[String]) -> Result<(Message, usize), Error> {
    if extra.iter().any(|text| text.trim().is_empty()) {
        return Err(Error::Invalid("params: `extra` has an empty text; each must be a secret to blot out".into()));
    }
    let mut count = 0;
    for part in &mut reply.parts {
        if let Part::Text(text) = part {
            let (clean, found) = scan::redact(text, extra);
            *text = clean;
            count += found;
        }
    }
    Ok((reply, count))
}

#[cfg(test)]
mod tests {
    use shelly_plugin::types::Role;

    use super::*;

    #[test]
    fn only_texts_with_secrets_change() {
        let clean = Message::new(Role::Assistant, "All is well.");
        assert_eq!(redact(clean.clone(), &[]), Ok((clean, 0)));
        let (reply, count) = redact(Message::new(Role::Assistant, "It is blue sky."), &["blue sky".into()]).unwrap();
        assert_eq!((reply.text().as_str(), count), ("It is [redacted].", 1));
        assert!(redact(Message::new(Role::Assistant, "x"), &[" ".into()]).is_err());
    }
}
