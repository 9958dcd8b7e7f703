//! Conversion of tool results to MCP call results: the inverse of `call_output`.

use base64::{Engine, engine::general_purpose::STANDARD};
use rmcp::model::{
    Annotations, CallToolResult, ContentBlock, JsonObject, Resource, ResourceContents, Tool, ToolAnnotations,
};
use serde_json::Value;
use url::Url;

use crate::call_output::{ANNOTATIONS, OWNER, RESOURCE};
use shelly_core::chat::{Media, MediaData, OpaqueContent, ToolHints, ToolResult, ToolResultContent, ToolSpec};

/// Converts a tool for a client's list.
pub(super) fn tool(spec: &ToolSpec) -> Tool {
    let schema: JsonObject = serde_json::from_str(spec.input_schema.get()).unwrap_or_default();
    let ToolHints { read_only, non_destructive, idempotent, closed_world } = spec.hints;
    let hints = ToolAnnotations::new()
        .read_only(read_only)
        .destructive(!non_destructive && !read_only)
        .idempotent(idempotent)
        .open_world(!closed_world);
    Tool::new(spec.name.clone(), spec.description.clone(), schema).with_annotations(hints)
}

/// Converts the result of a call.
pub(super) fn result(result: ToolResult) -> CallToolResult {
    let ToolResult { content, is_error, .. } = result;
    let mut blocks: Vec<ContentBlock> = Vec::with_capacity(content.len());
    let (mut structured, mut about) = (None, None);
    for (at, content) in content.into_iter().enumerate() {
        match content {
            ToolResultContent::Text(text) => blocks.push(match about.take() {
                Some(about) => embedded(about, text),
                None => ContentBlock::text(text),
            }),
            ToolResultContent::Json(json) => {
                // Revisions before 2026-07-28 accept only an object.
                let object = serde_json::from_str(&json).ok().filter(Value::is_object);
                structured = structured.or(object.filter(|_| !is_error));
                blocks.push(ContentBlock::text(json));
            }
            ToolResultContent::Media(media) => blocks.push(medium(media, at)),
            ToolResultContent::Other(OpaqueContent { kind, json }) => match kind.strip_prefix(OWNER) {
                Some(ANNOTATIONS) => {
                    if let Some(last) = blocks.last_mut() {
                        annotate(last, &json);
                    }
                }
                Some(RESOURCE) => about = Some(json),
                Some(_) if let Ok(link) = serde_json::from_str::<Resource>(&json) => {
                    blocks.push(ContentBlock::resource_link(link));
                }
                _ => blocks.push(ContentBlock::text(json)),
            },
        }
    }
    blocks.extend(about.map(ContentBlock::text));
    let mut result = if is_error { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) };
    result.structured_content = structured;
    result
}

/// Returns a text resource; `about` holds its URI, media type and annotations.
fn embedded(about: String, text: String) -> ContentBlock {
    let members: Value = serde_json::from_str(&about).unwrap_or_default();
    let word = |key: &str| members.get(key).and_then(Value::as_str);
    let Some(uri) = word("uri") else { return ContentBlock::text(text) };
    let contents = ResourceContents::text(text, uri);
    let contents = match word("mimeType") {
        Some(kind) => contents.with_mime_type(kind),
        None => contents,
    };
    let mut block = ContentBlock::resource(contents);
    annotate(&mut block, &about);
    block
}

fn medium(Media { media_type, name, source }: Media, at: usize) -> ContentBlock {
    let bytes = match source {
        MediaData::Bytes(bytes) => STANDARD.encode(&bytes),
        MediaData::Url(url) => {
            let name = name.unwrap_or_else(|| url.clone());
            return ContentBlock::resource_link(Resource::new(url, name).with_mime_type(media_type));
        }
    };
    match media_type.split('/').next() {
        Some("image") => ContentBlock::image(bytes, media_type),
        Some("audio") => ContentBlock::audio(bytes, media_type),
        _ => {
            let uri = name.filter(|name| Url::parse(name).is_ok());
            let uri = uri.unwrap_or_else(|| format!("shelly://result/{at}"));
            ContentBlock::resource(ResourceContents::blob(bytes, uri).with_mime_type(media_type))
        }
    }
}

/// Adds annotations to a block unless it has some.
fn annotate(block: &mut ContentBlock, json: &str) {
    let members = serde_json::from_str::<Value>(json).ok();
    let annotations = members.and_then(|mut members| members.get_mut("annotations").map(Value::take));
    let Some(annotations) =
        annotations.and_then(|json| serde_json::from_value::<Option<Annotations>>(json).ok().flatten())
    else {
        return;
    };
    let of = match block {
        ContentBlock::Text(text) => &mut text.annotations,
        ContentBlock::Image(image) => &mut image.annotations,
        ContentBlock::Audio(audio) => &mut audio.annotations,
        ContentBlock::Resource(resource) => &mut resource.annotations,
        ContentBlock::ResourceLink(link) => &mut link.annotations,
        _ => return,
    };
    of.get_or_insert(annotations);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call_output::output;

    fn back(content: Vec<ToolResultContent>, is_error: bool) -> Value {
        serde_json::to_value(result(ToolResult { call_id: "c".into(), content, is_error })).unwrap()
    }

    #[test]
    fn mcp_content_round_trips() {
        let png = STANDARD.encode(b"\x89PNG");
        let annotations = json!({"audience": ["user"], "priority": 0.5});
        for block in [
            json!({"type": "text", "text": "hi"}),
            json!({"type": "text", "text": "hi", "annotations": annotations}),
            json!({"type": "image", "data": png, "mimeType": "image/png", "annotations": annotations}),
            json!({"type": "audio", "data": png, "mimeType": "audio/wav"}),
            json!({"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"}),
            json!({"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/x", "text": "t"}, "annotations": annotations}),
            json!({"type": "resource", "resource": {"uri": "test://b", "mimeType": "application/zip", "blob": png}}),
        ] {
            let said =
                serde_json::from_value(json!({"content": [block.clone(), {"type": "text", "text": "end"}]})).unwrap();
            let shelly_core::tool::ToolOutput::Reply(content) = output(said) else { panic!("it controls nothing") };
            let told = back(content, false);
            assert_eq!(told["content"], json!([block, {"type": "text", "text": "end"}]));
            assert_eq!((&told["isError"], told.get("structuredContent")), (&json!(false), None));
        }
    }

    #[test]
    fn content_without_mcp_form_becomes_text() {
        let other =
            |kind: &str, json: &str| ToolResultContent::Other(OpaqueContent { kind: kind.into(), json: json.into() });
        let text = |text: &str| json!({"type": "text", "text": text});
        let media =
            |source| ToolResultContent::Media(Media { media_type: "application/pdf".into(), name: None, source });
        for (content, is_error, blocks, structured) in [
            (
                vec![ToolResultContent::Json(r#"{"a":1}"#.into())],
                false,
                json!([text(r#"{"a":1}"#)]),
                Some(json!({"a": 1})),
            ),
            (vec![ToolResultContent::Json(r#"{"a":1}"#.into())], true, json!([text(r#"{"a":1}"#)]), None),
            (vec![ToolResultContent::Json("[1]".into())], false, json!([text("[1]")]), None),
            (vec![other("x.y", "{}"), other("mcp.unknown", "5")], false, json!([text("{}"), text("5")]), None),
            (vec![other("mcp.annotations", "{}"), other("mcp.resource", "7")], false, json!([text("7")]), None),
            (vec![other("mcp.resource", "{}"), ToolResultContent::Text("t".into())], false, json!([text("t")]), None),
            (
                vec![media(MediaData::Url("https://a/b".into()))],
                false,
                json!([{"type": "resource_link", "uri": "https://a/b", "name": "https://a/b", "mimeType": "application/pdf"}]),
                None,
            ),
            (
                vec![media(MediaData::Bytes([1, 2, 3][..].into()))],
                false,
                json!([{"type": "resource", "resource": {"uri": "shelly://result/0", "mimeType": "application/pdf", "blob": "AQID"}}]),
                None,
            ),
        ] {
            let told = back(content, is_error);
            assert_eq!((&told["content"], &told["isError"]), (&blocks, &json!(is_error)));
            assert_eq!(told.get("structuredContent"), structured.as_ref());
        }
    }
}
