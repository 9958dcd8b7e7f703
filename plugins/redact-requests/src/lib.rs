//! A model middleware that replaces secrets by `[redacted]` in the requests to a model: in all texts of the conversation,
//! arguments of calls and tool results. The conversation itself stays unchanged.
//!
//! Params, with their defaults: `{"what": ["secrets"], "extra": []}`. `what` lists classes out of `secrets` (keys and
//! tokens of well-known shapes, private keys, passwords in assignments), `emails` and `cards` (payment card numbers).
//! `extra` lists texts to redact wherever they occur.
//!
//! Detection is a best effort: a secret of unknown shape is not found. Media are sent unchanged. So is thinking that the
//! vendor has signed: it is the model's own, and comes from a conversation that contained `[redacted]`. The plugin reads
//! the whole conversation for each request; a request without secrets is not copied back.

use guest_kit::secrets::Net;
use shelly_plugin::{
    Content, Error, Message, Part, info,
    model_middleware::{AfterDecision, BeforeDecision, ModelMiddleware, Pass, Sending},
    outgoing,
    types::{Completion, RunContext},
};

shelly_plugin::export!(model_middleware: RedactRequests);

struct RedactRequests;

impl ModelMiddleware for RedactRequests {
    fn before(_cx: RunContext, _sending: Sending) -> Result<BeforeDecision, Error> {
        let net = Net::of_params()?;
        let mut request = outgoing::get();
        check_sight(&request.messages)?;
        let count: usize = request.messages.iter_mut().map(|message| redact(message, &net)).sum();
        if count > 0 {
            // The log contains the number of secrets, never the secrets.
            info!("secrets redacted from a request: {count}");
        }
        let request = (count > 0).then_some(request);
        Ok(BeforeDecision::Proceed(Pass { model: None, request, state: Vec::new() }))
    }

    fn after(
        _cx: RunContext,
        _sending: Sending,
        _reply: Result<Completion, Error>,
        _state: Vec<u8>,
    ) -> Result<AfterDecision, Error> {
        Ok(AfterDecision::Accept)
    }
}

/// Fails if the powers to see the content are missing. Otherwise everything would pass unnoticed.
fn check_sight(messages: &[Message]) -> Result<(), Error> {
    let lacking = |power| Err(Error::Denied(format!("the plugin cannot see the requests; grant the power `{power}`")));
    let is_blind = !messages.is_empty() && messages.iter().all(|message| message.parts.is_empty());
    if is_blind {
        return lacking("see-messages");
    }
    let mut results = messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    });
    // Arguments cannot be checked in this way, because they may really be `{}`.
    let has_results = results.clone().next().is_some();
    match has_results && results.all(|result| result.content.is_empty()) {
        true => lacking("see-results"),
        false => Ok(()),
    }
}

/// Redacts the secrets of a message, and returns their number.
fn redact(message: &mut Message, net: &Net) -> usize {
    let replace = |text: &mut String, (clean, count): (String, usize)| {
        *text = clean;
        count
    };
    let text = |text: &mut String| replace(text, net.redact(text));
    let json = |text: &mut String| replace(text, net.redact_json(text));
    let content = |content: &mut Content| match content {
        Content::Text(words) => text(words),
        Content::Json(value) => json(value),
        _ => 0,
    };
    let part = |part: &mut Part| match part {
        Part::Text(words) => text(words),
        Part::Thinking(thought) if thought.opaque.is_none() => text(&mut thought.text),
        Part::ToolCall(call) => json(&mut call.arguments),
        Part::ToolResult(result) => result.content.iter_mut().map(content).sum(),
        Part::Thinking(_) | Part::Media(_) | Part::Other(_) => 0,
    };
    message.parts.iter_mut().map(part).sum()
}

#[cfg(test)]
mod tests {
    use guest_kit::secrets::What;
    use shelly_plugin::types::{Role, Thinking, ToolCall, ToolResult};

    use super::*;

    const CARD: &str = "4111111111111111";

    fn message(part: Part) -> Message {
        Message { parts: vec![part], ..Message::new(Role::User, "") }
    }

    fn call(arguments: String) -> Part {
        Part::ToolCall(ToolCall { id: "c".into(), name: "pay".into(), arguments, meta: Vec::new() })
    }

    fn result(content: Vec<Content>) -> Part {
        Part::ToolResult(ToolResult { call_id: "c".into(), content, is_error: false })
    }

    fn thought(opaque: Option<String>) -> Part {
        Part::Thinking(Thinking { text: CARD.into(), opaque })
    }

    #[test]
    fn request_redaction_covers_every_text_part() {
        let net = Net::new(vec![What::Cards], Vec::new()).unwrap();
        let blot = || "[redacted]".to_owned();
        let json = || r#"{"n":"[redacted]"}"#.to_owned();
        for (part, expected, count) in [
            (Part::Text(CARD.into()), Part::Text(blot()), 1),
            (call(format!(r#"{{"n": {CARD}}}"#)), call(json()), 1),
            (
                result(vec![Content::Text(CARD.into()), Content::Json(format!(r#"{{"n": {CARD}}}"#))]),
                result(vec![Content::Text(blot()), Content::Json(json())]),
                2,
            ),
            (thought(Some("sig".into())), thought(Some("sig".into())), 0),
            (thought(None), Part::Thinking(Thinking { text: blot(), opaque: None }), 1),
        ] {
            let mut changed = message(part.clone());
            assert_eq!(redact(&mut changed, &net), count, "{part:?}");
            assert_eq!(changed, message(expected));
        }
    }

    #[test]
    fn request_redaction_denies_hidden_messages() {
        let blind = Message { parts: Vec::new(), ..Message::new(Role::User, "") };
        for (messages, says) in [
            (vec![], None),
            (vec![message("x".into())], None),
            (vec![message("x".into()), blind.clone()], None),
            (vec![blind], Some("`see-messages`")),
            (vec![message("x".into()), message(result(vec![]))], Some("`see-results`")),
            (vec![message(result(vec![])), message(result(vec!["x".into()]))], None),
        ] {
            let error = check_sight(&messages).err().map(|error| error.message().to_owned());
            assert_eq!(error.is_some(), says.is_some(), "{error:?}");
            assert!(error.unwrap_or_default().contains(says.unwrap_or_default()));
        }
    }
}
