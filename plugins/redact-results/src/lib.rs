//! Replaces secrets by `[redacted]` in what tools say, before it is in the conversation: no model, no record of the
//! session and no other agent sees them.
//!
//! Params: `{"what": ["secrets"], "extra": []}`, which are the defaults. `what` are some of `secrets` (keys and tokens of
//! well-known shapes, private keys, passwords in assignments), `emails`, `cards` (numbers of payment cards); `extra` are
//! texts to blot out wherever they occur.
//!
//! It is a net, not a wall: what has no known shape passes, and so do media.

use guest_kit::secrets::Net;
use shelly_plugin::{
    Content, Error, info,
    tool_middleware::{Decision, Target, ToolMiddleware, Verdict},
    types::{RunContext, ToolCall},
};

shelly_plugin::export!(tool_middleware: RedactResults);

struct RedactResults;

impl ToolMiddleware for RedactResults {
    fn before(_cx: RunContext, _call: ToolCall, _target: Target) -> Result<Decision, Error> {
        Ok(Decision { verdict: Verdict::Allow, arguments: None, state: Vec::new() })
    }

    fn after(
        _cx: RunContext,
        call: ToolCall,
        outcome: Result<Vec<Content>, Error>,
        _state: Vec<u8>,
    ) -> Result<Option<Vec<Content>>, Error> {
        let net = Net::of_params()?;
        // What went wrong may name a secret as well: the host makes an error of these words.
        let content = outcome.unwrap_or_else(|error| vec![error.message().into()]);
        let (content, count) = redact(content, &net);
        if count == 0 {
            return Ok(None);
        }
        // How many, never which.
        info!("secrets blotted out of a result of `{}`: {count}", call.name);
        Ok(Some(content))
    }
}

/// The result without its secrets, and how many there were.
fn redact(content: Vec<Content>, net: &Net) -> (Vec<Content>, usize) {
    let mut found = 0;
    let mut counted = |(clean, count): (String, usize)| {
        found += count;
        clean
    };
    let clean = content.into_iter().map(|content| match content {
        Content::Text(text) => Content::Text(counted(net.redact(&text))),
        Content::Json(json) => Content::Json(counted(net.redact_json(&json))),
        other => other,
    });
    let clean = clean.collect();
    (clean, found)
}

#[cfg(test)]
mod tests {
    use guest_kit::secrets::What;

    use super::*;

    #[test]
    fn result_redaction_covers_text_and_json() {
        let net = Net::new(vec![What::Emails], Vec::new()).unwrap();
        let content = vec![Content::from("ask ann@example.com"), Content::Json(r#"{"to":"bob@example.com"}"#.into())];
        let clean = vec![Content::from("ask [redacted]"), Content::Json(r#"{"to":"[redacted]"}"#.into())];
        assert_eq!(redact(content, &net), (clean.clone(), 2));
        assert_eq!(redact(clean.clone(), &net), (clean, 0));
    }
}
