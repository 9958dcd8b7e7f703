//! Conversion of MCP call results to tool output.

use base64::{Engine, engine::general_purpose::STANDARD};
use rmcp::model::{Annotations, CallToolResult, ContentBlock, ResourceContents};
use serde::Serialize;
use serde_json::{Value, json};

use shelly_core::{
    chat::{Media, MediaData, OpaqueContent, ToolResultContent},
    error::{Fault, cut},
    limits,
    tool::ToolOutput,
};

/// The prefix of the kinds of opaque content that comes from MCP.
pub(super) const OWNER: &str = "mcp.";
/// The kind of opaque content that holds the annotations of the piece before it.
pub(super) const ANNOTATIONS: &str = "annotations";
/// The kind of opaque content that describes an embedded resource; the text of the resource follows.
pub(super) const RESOURCE: &str = "resource";

/// Converts a call result to tool output. Metadata for programs (`_meta`) is left out.
pub(super) fn output(result: CallToolResult) -> ToolOutput {
    let content = result.content.into_iter().flat_map(content).collect();
    finished(content, result.structured_content, result.is_error == Some(true))
}

/// Converts a result that `rmcp` does not know whole. Pieces of unknown kinds are kept as opaque content.
///
/// # Errors
///
/// [`Fault::Other`] if `result` is no call result.
pub(super) fn unknown_output(mut result: Value) -> Result<ToolOutput, Fault> {
    let is_error = result.get("isError").and_then(Value::as_bool) == Some(true);
    let structured = result.get_mut("structuredContent").map(Value::take);
    let pieces = match result.get_mut("content").map(Value::take) {
        Some(Value::Array(pieces)) => pieces,
        None if structured.is_some() => Vec::new(),
        _ => return Err(Fault::other("the server's answer is not the result of a call")),
    };
    let content = pieces.into_iter().flat_map(|piece| match serde_json::from_value(piece.clone()) {
        Ok(block) => content(block),
        Err(_) => {
            let kind = piece.get("type").and_then(Value::as_str).unwrap_or("unknown");
            vec![ToolResultContent::Other(opaque(kind, &piece))]
        }
    });
    Ok(finished(content.collect(), structured, is_error))
}

fn finished(mut content: Vec<ToolResultContent>, structured: Option<Value>, is_error: bool) -> ToolOutput {
    if let Some(structured) = structured {
        // Servers repeat structured content as text, for older clients: one of the two is enough.
        let same = content.iter_mut().find_map(|piece| match piece {
            ToolResultContent::Text(text) if is_json(text, &structured) => Some((text.clone(), piece)),
            _ => None,
        });
        match same {
            // The text keeps all digits of its numbers.
            Some((text, piece)) => *piece = ToolResultContent::Json(text),
            None => content.push(ToolResultContent::Json(structured.to_string())),
        }
    }
    if !is_error {
        return ToolOutput::Reply(content);
    }
    if content.is_empty() {
        content.push(ToolResultContent::Text("the tool failed without giving a reason".into()));
    }
    ToolOutput::Failed(content)
}

fn is_json(text: &str, value: &Value) -> bool {
    let begins = text.trim_start().as_bytes().first();
    // A text that happens to be a number or a word is not the structured content.
    matches!(begins, Some(b'{' | b'[')) && serde_json::from_str::<Value>(text).is_ok_and(|text| text == *value)
}

fn content(block: ContentBlock) -> Vec<ToolResultContent> {
    match block {
        ContentBlock::Text(text) => with_annotations(ToolResultContent::Text(text.text), text.annotations),
        ContentBlock::Image(image) => with_annotations(media(&image.mime_type, None, &image.data), image.annotations),
        ContentBlock::Audio(audio) => with_annotations(media(&audio.mime_type, None, &audio.data), audio.annotations),
        ContentBlock::ResourceLink(link) => {
            vec![ToolResultContent::Other(opaque("resource_link", &without_meta(&link)))]
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                let about = json!({"uri": uri, "mimeType": mime_type, "annotations": embedded.annotations});
                vec![ToolResultContent::Other(opaque(RESOURCE, &without_nulls(about))), ToolResultContent::Text(text)]
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.as_deref().unwrap_or(ANY_BYTES);
                with_annotations(media(kind, Some(&uri), &blob), embedded.annotations)
            }
            other => vec![ToolResultContent::Other(opaque(RESOURCE, &other))],
        },
        other => vec![ToolResultContent::Other(opaque("unknown", &other))],
    }
}

const ANY_BYTES: &str = "application/octet-stream";

/// Returns a medium, or a text that says why it is left out.
pub(super) fn media(kind: &str, name: Option<&str>, data: &str) -> ToolResultContent {
    let is_type = |kind: &&str| {
        kind.len() <= limits::MEDIA_NAME_BYTES && kind.contains('/') && kind.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let kind = Some(kind).filter(is_type).unwrap_or(ANY_BYTES);
    let left_out = |why: String| ToolResultContent::Text(format!("[{kind}, left out: {why}]"));
    let Ok(bytes) = STANDARD.decode(data) else { return left_out("invalid base64".into()) };
    if bytes.len() > limits::MEDIA_BYTES {
        return left_out(format!("{} bytes, the maximum is {}", bytes.len(), limits::MEDIA_BYTES));
    }
    let name = name.map(|name| cut(name, limits::MEDIA_NAME_BYTES / 4));
    ToolResultContent::Media(Media { media_type: kind.into(), name, source: MediaData::Bytes(bytes.into()) })
}

fn with_annotations(content: ToolResultContent, annotations: Option<Annotations>) -> Vec<ToolResultContent> {
    let beside = annotations.map(|annotations| without_nulls(json!(annotations)));
    let beside = beside.filter(|beside| beside.as_object().is_some_and(|map| !map.is_empty()));
    let beside = beside.map(|beside| ToolResultContent::Other(opaque(ANNOTATIONS, &json!({"annotations": beside}))));
    [content].into_iter().chain(beside).collect()
}

fn opaque(kind: &str, value: &impl Serialize) -> OpaqueContent {
    let json = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
    OpaqueContent { kind: format!("{OWNER}{}", cut(kind, limits::NAME_SHOWN_CHARS)), json }
}

fn without_meta(value: &impl Serialize) -> Value {
    let mut value = json!(value);
    if let Some(map) = value.as_object_mut() {
        map.remove("_meta");
        map.remove("icons");
    }
    value
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(map) = value.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_whole(result: Value) -> Result<ToolOutput, Fault> {
        let known = serde_json::from_value(result.clone());
        known.map_or_else(|_| unknown_output(result), |known| Ok(output(known)))
    }

    fn read(result: Value) -> Result<Vec<ToolResultContent>, Fault> {
        let output = read_whole(result)?;
        let ToolOutput::Reply(content) = output else { panic!("{output:?}") };
        Ok(content)
    }

    fn text(text: &str) -> ToolResultContent {
        ToolResultContent::Text(text.into())
    }

    fn other(kind: &str, json: &str) -> ToolResultContent {
        ToolResultContent::Other(OpaqueContent { kind: kind.into(), json: json.into() })
    }

    fn medium(kind: &str, name: Option<&str>) -> ToolResultContent {
        let (media_type, name) = (kind.into(), name.map(str::to_owned));
        ToolResultContent::Media(Media { media_type, name, source: MediaData::Bytes(b"abc"[..].into()) })
    }

    #[test]
    fn every_kind_of_piece_is_kept() {
        for (piece, expected) in [
            (json!({"type": "text", "text": "hi", "_meta": {"k": 1}}), vec![text("hi")]),
            (
                json!({"type": "text", "text": "hi", "annotations": {"audience": ["user"]}}),
                vec![text("hi"), other("mcp.annotations", r#"{"annotations":{"audience":["user"]}}"#)],
            ),
            (json!({"type": "image", "data": "YWJj", "mimeType": "image/png"}), vec![medium("image/png", None)]),
            (json!({"type": "audio", "data": "YWJj", "mimeType": "audio/wav"}), vec![medium("audio/wav", None)]),
            (json!({"type": "audio", "data": "YWJj", "mimeType": "a\u{1b}"}), vec![medium(ANY_BYTES, None)]),
            (
                json!({"type": "image", "data": "!", "mimeType": "image/png"}),
                vec![text("[image/png, left out: invalid base64]")],
            ),
            (
                json!({"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3, "_meta": {}}),
                vec![other("mcp.resource_link", r#"{"name":"a","size":3,"type":"resource_link","uri":"file:///a"}"#)],
            ),
            (
                json!({"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/x", "text": "hi"}}),
                vec![other("mcp.resource", r#"{"mimeType":"text/x","uri":"file:///a"}"#), text("hi")],
            ),
            (
                json!({"type": "resource", "resource": {"uri": "file:///a", "blob": "YWJj"}}),
                vec![medium(ANY_BYTES, Some("file:///a"))],
            ),
            (json!({"type": "hologram", "x": 1}), vec![other("mcp.hologram", r#"{"type":"hologram","x":1}"#)]),
        ] {
            let got = read(json!({"content": [piece]})).unwrap();
            let same = |content: &[ToolResultContent]| {
                let plain = |content: &ToolResultContent| match content {
                    // The order of keys does not matter.
                    ToolResultContent::Other(opaque) => {
                        json!([opaque.kind, without_type(serde_json::from_str::<Value>(&opaque.json).unwrap())])
                    }
                    other => json!(other),
                };
                content.iter().map(plain).collect::<Vec<_>>()
            };
            assert_eq!(same(&got), same(&expected));
        }
        let large = STANDARD.encode(vec![0; limits::MEDIA_BYTES + 1]);
        let got = read(json!({"content": [{"type": "image", "data": large, "mimeType": "image/png"}]})).unwrap();
        assert_eq!(got, [text("[image/png, left out: 8388609 bytes, the maximum is 8388608]")]);
    }

    fn without_type(mut value: Value) -> Value {
        if value.get("uri").is_some()
            && let Some(map) = value.as_object_mut()
        {
            map.remove("type");
        }
        value
    }

    #[test]
    fn structured_content_is_there_once() {
        let json = |json: &str| ToolResultContent::Json(json.into());
        for (result, expected) in [
            (json!({"structuredContent": {"a": 1}}), vec![json(r#"{"a":1}"#)]),
            (
                json!({"structuredContent": {"a": 1}, "content": [{"type": "text", "text": "{ \"a\": 1 }"}]}),
                vec![json(r#"{ "a": 1 }"#)],
            ),
            (
                json!({"structuredContent": {"a": 1e20}, "content": [{"type": "text", "text": "{\"a\":100000000000000000001}"}]}),
                vec![json(r#"{"a":100000000000000000001}"#)],
            ),
            (
                json!({"structuredContent": {"a": 1}, "content": [{"type": "text", "text": "one"}]}),
                vec![text("one"), json(r#"{"a":1}"#)],
            ),
            (json!({"structuredContent": 1, "content": [{"type": "text", "text": "1"}]}), vec![text("1"), json("1")]),
            (json!({"content": []}), vec![]),
        ] {
            assert_eq!(read(result.clone()).unwrap(), expected, "{result}");
        }
    }

    #[test]
    fn failed_call_becomes_failed_output() {
        for (result, expected) in [
            (json!([{"type": "text", "text": "no such file"}]), vec![text("no such file")]),
            (json!([]), vec![text("the tool failed without giving a reason")]),
            (json!([{"type": "odd"}]), vec![other("mcp.odd", r#"{"type":"odd"}"#)]),
            (
                json!([{"type": "text", "text": "see"}, {"type": "image", "data": "YWJj", "mimeType": "image/png"}]),
                vec![text("see"), medium("image/png", None)],
            ),
        ] {
            let output = read_whole(json!({"isError": true, "content": result})).unwrap();
            assert_eq!(output, ToolOutput::Failed(expected), "{result}");
        }
        let fault = read_whole(json!({"content": "text"})).unwrap_err();
        assert_eq!(fault, Fault::other("the server's answer is not the result of a call"));
    }
}
