//! The content of a server's prompt, bounded and checked before a person is shown it.

use std::{collections::BTreeMap, sync::Arc};

use rmcp::model::{
    self, ClientRequest, ContentBlock, GetPromptRequest, GetPromptRequestParams, ResourceContents, ServerResult,
};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    McpClient, McpError, call_output::media, client::McpClientInner, client_request::McpRequestError,
    listing::declares_prompts,
};
use shelly_core::{
    chat::{Media, Role, ToolResultContent},
    error::{cut, seconds},
    limits,
    tool::check_seen,
};

/// A part of a prompt's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPromptPart {
    /// The author of the message: [`Role::User`] or [`Role::Assistant`].
    pub role: Role,
    /// The content of the message.
    pub content: ServerPromptContent,
}

/// The content of one message of a prompt. None of its texts has characters that a person does not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerPromptContent {
    /// Text, also in place of content that no prompt may have.
    Text(String),
    /// The text of an embedded resource.
    Resource {
        /// The address of the resource.
        uri: String,
        /// Its text.
        text: String,
    },
    /// An image or another medium, of the type that the server names.
    Media(Media),
}

impl McpClient {
    /// Gets the content of a prompt with these values for its arguments, by their names.
    ///
    /// # Errors
    ///
    /// [`McpError::Prompt`] if the server has no such prompt, refuses the arguments or does not answer in the time of a call,
    /// or if its answer is too large or has characters that a person does not see.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: BTreeMap<String, String>,
    ) -> Result<Vec<ServerPromptPart>, McpError> {
        let shared = &self.shared;
        let got = shared.get_prompt(name, arguments).await;
        got.map_err(|why| McpError::Prompt { server: Arc::clone(&shared.config.name), prompt: name.to_owned(), why })
    }
}

impl McpClientInner {
    async fn get_prompt(
        &self,
        name: &str,
        arguments: BTreeMap<String, String>,
    ) -> Result<Vec<ServerPromptPart>, String> {
        let session = self.session_in_time().await?;
        if !declares_prompts(&session.peer) {
            return Err("the server offers no prompts".into());
        }
        // Always an object: some servers take a missing one for an invalid one.
        let arguments = arguments.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        let most = self.config.call_time;
        match timeout(most, session.exchange(request)).await {
            Ok(Ok(result)) => parts_of(result),
            Ok(Err(McpRequestError::Fault(fault))) => Err(fault.to_string()),
            Ok(Err(McpRequestError::Lost(ended))) => Err(ended.to_string()),
            Err(_) => Err(format!("no answer within {}", seconds(most))),
        }
    }
}

/// Reads the answer to a request for a prompt.
fn parts_of(result: ServerResult) -> Result<Vec<ServerPromptPart>, String> {
    let parts: Vec<_> = match result {
        ServerResult::GetPromptResult(result) => {
            within_messages(result.messages.len())?;
            result.messages.into_iter().map(|message| part(&message.role, content(message.content))).collect()
        }
        ServerResult::CustomResult(other) => unknown_parts(other.0)?,
        ServerResult::InputRequiredResult(_) => {
            return Err("the server requests input before it answers, which it may only during a call of a tool".into());
        }
        _ => return Err("the answer is not a prompt".into()),
    };
    check_texts(&parts)?;
    Ok(parts)
}

/// Reads an answer that `rmcp` does not know whole: content of an unknown kind is left out, and a text says so.
fn unknown_parts(mut result: Value) -> Result<Vec<ServerPromptPart>, String> {
    let Some(Value::Array(messages)) = result.get_mut("messages").map(Value::take) else {
        return Err("the answer is not a prompt".into());
    };
    within_messages(messages.len())?;
    let read = |mut message: Value| {
        let mut take = |key| message.get_mut(key).map(Value::take).unwrap_or_default();
        let role = serde_json::from_value(take("role")).map_err(|_| "a message has no valid role")?;
        let piece = take("content");
        let kind = piece.get("type").and_then(Value::as_str).unwrap_or("content").to_owned();
        let known = serde_json::from_value(piece).map(content);
        Ok(part(&role, known.unwrap_or_else(|_| left_out(&kind, "a prompt cannot have it"))))
    };
    messages.into_iter().map(read).collect::<Result<_, &str>>().map_err(str::to_owned)
}

fn part(role: &model::Role, content: ServerPromptContent) -> ServerPromptPart {
    let role = match role {
        model::Role::User => Role::User,
        model::Role::Assistant => Role::Assistant,
    };
    ServerPromptPart { role, content }
}

fn content(block: ContentBlock) -> ServerPromptContent {
    let from_media = |content| match content {
        ToolResultContent::Media(media) => ServerPromptContent::Media(media),
        ToolResultContent::Text(why) => ServerPromptContent::Text(why),
        _ => left_out("content", "a prompt cannot have it"),
    };
    match block {
        ContentBlock::Text(text) => ServerPromptContent::Text(text.text),
        ContentBlock::Image(image) => from_media(media(&image.mime_type, None, &image.data)),
        ContentBlock::Audio(audio) => from_media(media(&audio.mime_type, None, &audio.data)),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => ServerPromptContent::Resource { uri, text },
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                from_media(media(mime_type.as_deref().unwrap_or_default(), Some(&uri), &blob))
            }
            _ => left_out("resource", "it is of an unknown kind"),
        },
        ContentBlock::ResourceLink(link) => {
            left_out(&format!("the resource `{}`", link.uri), "the prompt only links to it")
        }
        _ => left_out("content", "a prompt cannot have it"),
    }
}

/// Returns a text in place of content that is left out.
fn left_out(what: &str, why: &str) -> ServerPromptContent {
    ServerPromptContent::Text(format!("[{}, left out: {why}]", cut(what, limits::MEDIA_NAME_BYTES)))
}

fn within_messages(count: usize) -> Result<(), String> {
    match count {
        0 => Err("it has no messages".into()),
        count if count > limits::MCP_PROMPT_MESSAGES => {
            Err(format!("it has {count} messages, the maximum is {}", limits::MCP_PROMPT_MESSAGES))
        }
        _ => Ok(()),
    }
}

/// Checks that the texts are not too long, and that a person who is shown them sees what an agent sees.
fn check_texts(parts: &[ServerPromptPart]) -> Result<(), String> {
    let texts = parts.iter().flat_map(|part| match &part.content {
        ServerPromptContent::Text(text) => [Some(text), None],
        ServerPromptContent::Resource { uri, text } => [Some(uri), Some(text)],
        ServerPromptContent::Media(media) => [media.name.as_ref(), None],
    });
    let texts: Vec<_> = texts.flatten().collect();
    let has_media = parts.iter().any(|part| matches!(part.content, ServerPromptContent::Media(_)));
    if !has_media && texts.iter().all(|text| text.trim().is_empty()) {
        return Err("it has no text".into());
    }
    let (bytes, most) = (texts.iter().map(|text| text.len()).sum::<usize>(), limits::MCP_PROMPT_BYTES);
    if bytes > most {
        return Err(format!("its text has {bytes} bytes, the maximum is {most}"));
    }
    texts.iter().try_for_each(|text| check_seen(text)).map_err(|what| format!("its text {what}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use shelly_core::chat::MediaData;

    fn read(result: Value) -> Result<Vec<ServerPromptPart>, String> {
        parts_of(serde_json::from_value(result).unwrap())
    }

    fn read_one(content: &Value) -> Result<ServerPromptContent, String> {
        let mut parts = read(json!({"messages": [{"role": "user", "content": content}]}))?;
        assert_eq!((parts.len(), parts[0].role), (1, Role::User));
        Ok(parts.remove(0).content)
    }

    fn text(text: &str) -> ServerPromptContent {
        ServerPromptContent::Text(text.into())
    }

    #[test]
    fn every_kind_of_content_is_read_or_left_out_in_words() {
        let medium = |kind: &str, name: Option<&str>| {
            let (media_type, name) = (kind.into(), name.map(str::to_owned));
            ServerPromptContent::Media(Media { media_type, name, source: MediaData::Bytes(b"abc"[..].into()) })
        };
        let resource = ServerPromptContent::Resource {
            uri: "file:///a".into(),
            text: "one\n\ttwo \u{1f468}\u{200d}\u{1f469}".into(),
        };
        for (content, expected) in [
            (json!({"type": "text", "text": "hi", "annotations": {"audience": ["user"]}}), text("hi")),
            (
                json!({"type": "resource", "resource": {"uri": "file:///a", "text": "one\n\ttwo \u{1f468}\u{200d}\u{1f469}"}}),
                resource,
            ),
            (json!({"type": "image", "data": "YWJj", "mimeType": "image/png"}), medium("image/png", None)),
            (
                json!({"type": "resource", "resource": {"uri": "file:///a", "blob": "YWJj", "mimeType": "image/png"}}),
                medium("image/png", Some("file:///a")),
            ),
            (
                json!({"type": "image", "data": "!", "mimeType": "image/png"}),
                text("[image/png, left out: invalid base64]"),
            ),
            (
                json!({"type": "resource_link", "uri": "file:///a", "name": "a"}),
                text("[the resource `file:///a`, left out: the prompt only links to it]"),
            ),
            (json!({"type": "hologram", "x": 1}), text("[hologram, left out: a prompt cannot have it]")),
            (json!("plain"), text("[content, left out: a prompt cannot have it]")),
        ] {
            assert_eq!(read_one(&content), Ok(expected), "{content}");
        }
    }

    #[test]
    fn messages_keep_their_order_and_authors() {
        let message = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
        let messages =
            [message("user", "What is two and two?"), message("assistant", "Four."), message("user", "And three?")];
        let parts = read(json!({"description": "d", "messages": messages})).unwrap();
        let authors: Vec<_> = parts.iter().map(|part| part.role).collect();
        assert_eq!(authors, [Role::User, Role::Assistant, Role::User]);
        assert_eq!(parts[1].content, text("Four."));
    }

    #[test]
    fn hostile_prompt_content_is_refused_in_words() {
        let of = |text: &str| json!({"type": "text", "text": text});
        let message = |content: Value| json!({"role": "user", "content": content});
        let half = "x".repeat(limits::MCP_PROMPT_BYTES / 2 + 1);
        let many = vec![message(of("x")); limits::MCP_PROMPT_MESSAGES + 1];
        let messages = |messages: Vec<Value>| json!({ "messages": messages });
        for (result, why) in [
            (messages(vec![]), "it has no messages"),
            (messages(vec![message(of(" \n"))]), "it has no text"),
            (messages(many), "it has 65 messages, the maximum is 64"),
            (
                messages(vec![message(of(&half)), message(of(&half))]),
                "its text has 262146 bytes, the maximum is 262144",
            ),
            (messages(vec![message(of("\u{1b}]52;c;aGk=\u{7}"))]), "its text has the invisible character U+001B"),
            (messages(vec![message(of("read\u{e0041}me"))]), "its text has the invisible character U+E0041"),
            (
                messages(vec![message(json!({"type": "resource", "resource": {"uri": "a:\u{202e}", "text": ""}}))]),
                "its text has the invisible character U+202E",
            ),
            (messages(vec![message(json!({"type": "\u{9b}31m"}))]), "its text has the invisible character U+009B"),
            (messages(vec![json!({"role": "system", "content": of("x")})]), "a message has no valid role"),
            (messages(vec![json!("x")]), "a message has no valid role"),
            (json!({"messages": "none"}), "the answer is not a prompt"),
            (json!({"content": []}), "the answer is not a prompt"),
            (
                json!({"resultType": "input_required", "requestState": "s"}),
                "the server requests input before it answers",
            ),
        ] {
            let shown = result.to_string();
            let refused = read(result).unwrap_err();
            assert!(refused.starts_with(why), "{}: {refused}", cut(&shown, 200));
        }
        let fits = "x".repeat(limits::MCP_PROMPT_BYTES);
        assert_eq!(read_one(&of(&fits)), Ok(text(&fits)));
    }
}
