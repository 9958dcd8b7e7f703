//! A tool middleware that replaces secrets by `[redacted]` in tool results before these enter the conversation: no model,
//! no record of the session and no other agent sees them.
//!
//! Params, with their defaults: `{"what": ["secrets"], "extra": []}`. `what` lists classes out of `secrets` (keys and
//! tokens of well-known shapes, private keys, passwords in assignments), `emails` and `cards` (payment card numbers).
//! `extra` lists texts to redact wherever they occur.
//!
//! Detection is a best effort: a secret of unknown shape is not found. Media are not checked.

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
        // An error may contain a secret too; the host turns this content into an error again.
        let content = outcome.unwrap_or_else(|error| vec![error.message().into()]);
        let (content, count) = redact(content, &net);
        if count == 0 {
            return Ok(None);
        }
        // The log contains the number of secrets, never the secrets.
        info!("secrets redacted from a result of `{}`: {count}", call.name);
        Ok(Some(content))
    }
}

/// Returns the result without its secrets, and their number.
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
