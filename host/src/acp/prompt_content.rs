use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    protocol::{ContentBlock, EmbeddedContent},
    rpc::RpcError,
};
use crate::{
    error::{cut, legible},
    limits,
    task::{AttachedFile, TaskInput},
};

/// Turns the blocks of a prompt into a task. A linked file stays a link: the agent reads it with its tools, if it may.
/// The content of an embedded file follows the text, between marks.
///
/// # Errors
///
/// The error that answers a prompt that is too large, or has content that no model takes.
pub(super) fn task_of(blocks: Vec<ContentBlock>) -> Result<TaskInput, RpcError> {
    let refuse = |what: String| Err(RpcError::invalid_params(what));
    if blocks.len() > limits::ACP_PROMPT_BLOCKS {
        return refuse(format!("{} blocks, the maximum is {}", blocks.len(), limits::ACP_PROMPT_BLOCKS));
    }
    let (mut text, mut attachments) = (String::new(), Vec::new());
    for block in blocks {
        match block {
            ContentBlock::Text { text: more } => text.push_str(&more),
            ContentBlock::ResourceLink { name, uri } => text.push_str(&mention(&name, &uri)),
            ContentBlock::Image { data, uri } => {
                let name = uri.map(|uri| name_of(&uri));
                let attached = AttachedFile::media(name, decoded("the image", &data)?.into());
                attachments.push(attached.ok_or_else(|| {
                    RpcError::invalid_params("the image is neither PNG, JPEG, GIF nor WebP; convert it to one of these")
                })?);
            }
            ContentBlock::Resource { resource: EmbeddedContent::Text { uri, text: content } } => {
                let name = name_of(&uri);
                text.push_str(&mention(&name, &uri));
                if content.len() as u64 > limits::ATTACHED_TEXT_BYTES {
                    let most = limits::ATTACHED_TEXT_BYTES;
                    return refuse(format!("the file `{name}` has {} bytes, the maximum is {most}", content.len()));
                }
                attachments.push(AttachedFile::Text { name, text: content });
            }
            ContentBlock::Resource { resource: EmbeddedContent::Blob { uri, blob } } => {
                let name = name_of(&uri);
                text.push_str(&mention(&name, &uri));
                let attached = AttachedFile::of_bytes(&name, decoded(&format!("the file `{name}`"), &blob)?);
                attachments
                    .push(attached.map_err(|why| RpcError::invalid_params(format!("the file `{name}`: {why}")))?);
            }
            ContentBlock::Audio {} => return refuse("audio is not supported; send text or images".into()),
        }
        if text.len() > limits::TASK_BYTES {
            return refuse(format!("the text has more than {} bytes", limits::TASK_BYTES));
        }
    }
    let images = attachments.iter().filter(|file| is_image(file)).count();
    if images > limits::ACP_PROMPT_IMAGES {
        return refuse(format!("{images} images, the maximum is {}", limits::ACP_PROMPT_IMAGES));
    }
    if attachments.len() > limits::TASK_ATTACHMENTS {
        return refuse(format!("{} files, the maximum is {}", attachments.len(), limits::TASK_ATTACHMENTS));
    }
    let bytes = text.len() + attachments.iter().map(AttachedFile::bytes).sum::<usize>();
    if bytes > limits::ACP_PROMPT_BYTES {
        let most = limits::ACP_PROMPT_BYTES;
        return refuse(format!("the text and the files have {bytes} bytes together, the maximum is {most}"));
    }
    if text.trim().is_empty() && attachments.is_empty() {
        return refuse("the prompt is empty".into());
    }
    Ok(TaskInput { text, attachments, schema: None })
}

fn is_image(file: &AttachedFile) -> bool {
    matches!(file, AttachedFile::Media(media) if media.media_type.starts_with("image/"))
}

/// Returns the words that stand for a file in the text.
fn mention(name: &str, uri: &str) -> String {
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    format!("[@{}]({})", cut(&legible(name), limits::NAME_SHOWN_CHARS), legible(path))
}

/// Returns the last part of an address.
fn name_of(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    cut(&legible(name), limits::NAME_SHOWN_CHARS)
}

fn decoded(what: &str, base64: &str) -> Result<Vec<u8>, RpcError> {
    let bytes = STANDARD.decode(base64).map_err(|error| RpcError::invalid_params(format!("{what}: {error}")))?;
    match bytes.len() as u64 > limits::ATTACHED_MEDIA_BYTES {
        true => {
            let most = limits::ATTACHED_MEDIA_BYTES;
            Err(RpcError::invalid_params(format!("{what} has {} bytes, the maximum is {most}", bytes.len())))
        }
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::chat::{Media, Part};

    /// A PNG as far as its first bytes say.
    const PNG: &str = "iVBORw0KGgo=";

    fn task(blocks: Value) -> Result<TaskInput, RpcError> {
        task_of(serde_json::from_value(blocks).unwrap())
    }

    #[test]
    fn links_are_words_and_embedded_files_are_attached() {
        let input = task(json!([
            {"type": "text", "text": "Compare "},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///p/a.rs"},
            {"type": "text", "text": " and "},
            {"type": "resource", "resource": {"uri": "file:///p/b.rs", "text": "fn b() {}"}},
            {"type": "image", "data": PNG, "mimeType": "image/odd", "uri": "file:///p/c.png"},
            {"type": "resource", "resource": {"uri": "zed:///d", "blob": PNG}},
            {"type": "resource", "resource": {"uri": "file:///p/e", "blob": "aGk="}},
        ]))
        .unwrap();
        assert_eq!(input.text, "Compare [@a.rs](/p/a.rs) and [@b.rs](/p/b.rs)[@d](zed:///d)[@e](/p/e)");
        let message = input.into_message();
        let [Part::Media(image), Part::Media(blob), Part::Text(text)] = &message.parts[..] else {
            panic!("{message:?}")
        };
        let facts = |media: &Media| (media.media_type.clone(), media.name.clone());
        assert_eq!(facts(image), ("image/png".into(), Some("c.png".into())));
        assert_eq!(facts(blob), ("image/png".into(), Some("d".into())));
        assert!(text.contains("\nfn b() {}\n</attached_file>"), "{text}");
        assert!(text.ends_with("\nhi\n</attached_file>"), "a text as base64 is a text: {text}");
    }

    #[test]
    fn unusable_prompts_are_refused() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let file = |text: &str| json!({"type": "resource", "resource": {"uri": "file:///a", "text": text}});
        let large = "x".repeat(usize::try_from(limits::ATTACHED_TEXT_BYTES).unwrap() + 1);
        let (most, image) = (&large[1..], json!({"type": "image", "data": PNG, "mimeType": "image/png"}));
        let files = limits::ACP_PROMPT_BYTES / most.len();
        for (blocks, why) in [
            (json!([]), "the prompt is empty"),
            (json!([text(" \n")]), "the prompt is empty"),
            (json!(vec![text("a"); limits::ACP_PROMPT_BLOCKS + 1]), "513 blocks, the maximum is 512"),
            (json!([text(&"x".repeat(limits::TASK_BYTES + 1))]), "the text has more than"),
            (json!([file(&large)]), "the file `a` has"),
            (json!(vec![file("x"); limits::TASK_ATTACHMENTS + 1]), "101 files, the maximum is 100"),
            (json!(vec![image; limits::ACP_PROMPT_IMAGES + 1]), "51 images, the maximum is 50"),
            (json!(vec![file(most); files + 1]), "the text and the files have"),
            (json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]), "audio is not supported"),
            (json!([{"type": "image", "data": "?", "mimeType": "image/png"}]), "the image: "),
            (json!([{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]), "the image is neither PNG"),
            (
                json!([{"type": "resource", "resource": {"uri": "b", "blob": "AP8="}}]),
                "the file `b`: the file is neither",
            ),
        ] {
            let error = task(blocks).unwrap_err();
            assert!(error.message.starts_with(why), "{why}: {}", error.message);
            assert_eq!(error.code, RpcError::INVALID_PARAMS);
        }
    }
}
