//! The parts of the Agent Client Protocol, version 1, that the host reads. Unknown members are ignored, as the protocol
//! asks.

use std::path::PathBuf;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::rpc::RpcError;
use crate::{error::cut, limits};

/// The version of the protocol that the host speaks.
pub(super) const PROTOCOL_VERSION: u16 = 1;

/// Reads the parameters of a method.
///
/// # Errors
///
/// The error that answers a request whose parameters have another form.
pub(super) fn params<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_json::from_value(params).map_err(|error| {
        // The error repeats a text that is in the wrong place.
        let error = cut(&error.to_string(), limits::FAILURE_SHOWN_CHARS);
        RpcError::invalid_params(format!("invalid parameters: {error}"))
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InitializeParams {
    /// The newest version that the editor speaks. The host answers with its own; the editor hangs up if it does not know
    /// it.
    #[serde(rename = "protocolVersion")]
    pub _protocol_version: u64,
    #[serde(default)]
    pub client_capabilities: EditorCapabilities,
}

/// The abilities of the editor that the host uses.
#[derive(Debug, Default, Deserialize)]
pub(super) struct EditorCapabilities {
    /// The abilities around files, of which each that is not `true` is missing.
    #[serde(default)]
    fs: Value,
    #[serde(default)]
    session: Option<EditorSessionCapabilities>,
    #[serde(default)]
    elicitation: Option<EditorElicitation>,
}

#[derive(Debug, Deserialize)]
struct EditorSessionCapabilities {
    #[serde(default)]
    notices: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct EditorElicitation {
    #[serde(default)]
    form: Option<Value>,
}

impl EditorCapabilities {
    /// Returns `true` if the editor shows the texts of its files.
    pub fn reads_files(&self) -> bool {
        self.fs["readTextFile"] == true
    }

    /// Returns `true` if the editor takes texts of files.
    pub fn writes_files(&self) -> bool {
        self.fs["writeTextFile"] == true
    }

    /// Returns `true` if the editor shows notices that belong to no message.
    pub fn has_notices(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.notices.is_some())
    }

    /// Returns `true` if the editor has forms in which a person answers in words.
    pub fn has_forms(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|elicitation| elicitation.form.is_some())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSessionParams {
    pub cwd: PathBuf,
    #[serde(default)]
    pub mcp_servers: Vec<EditorMcpServer>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LoadSessionParams {
    pub session_id: String,
    pub cwd: PathBuf,
    #[serde(default)]
    pub mcp_servers: Vec<EditorMcpServer>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ListSessionsParams {
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    #[serde(default)]
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionIdParams {
    pub session_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetModeParams {
    pub session_id: String,
    pub mode_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptParams {
    pub session_id: String,
    pub prompt: Vec<ContentBlock>,
}

/// A part of a prompt.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentBlock {
    Text {
        text: String,
    },
    /// An image as base64.
    Image {
        data: String,
        #[serde(default)]
        uri: Option<String>,
    },
    Audio {},
    /// A file that the agent may read with its tools.
    ResourceLink {
        name: String,
        uri: String,
    },
    /// A file with its content.
    Resource {
        resource: EmbeddedContent,
    },
}

impl ContentBlock {
    /// Returns the bytes of its texts as the editor sent them.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Image { data, uri } => data.len() + uri.as_ref().map_or(0, String::len),
            Self::Audio {} => 0,
            Self::ResourceLink { name, uri } => name.len() + uri.len(),
            Self::Resource {
                resource: EmbeddedContent::Text { uri, text: content } | EmbeddedContent::Blob { uri, blob: content },
            } => uri.len() + content.len(),
        }
    }
}

/// The content of an embedded file.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "an embedded `resource` must have a `uri`, and a `text` or a `blob`")]
pub(super) enum EmbeddedContent {
    Text {
        uri: String,
        text: String,
    },
    /// Bytes as base64.
    Blob {
        uri: String,
        blob: String,
    },
}

/// An MCP server that the editor brings: a program, or an address.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct EditorMcpServer {
    pub name: String,
    /// `http` or `sse`; a program has none.
    #[serde(default, rename = "type")]
    pub transport: Option<String>,
    #[serde(default)]
    pub command: Option<String>,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: Vec<NamedValue>,
    #[serde(default)]
    pub url: Option<String>,
    #[serde(default)]
    pub headers: Vec<NamedValue>,
}

/// An environment variable or a header.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct NamedValue {
    pub name: String,
    pub value: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_members_are_ignored_and_wrong_ones_refused() {
        let read: PromptParams = params(json!({
            "sessionId": "s", "new": {}, "_meta": null,
            "prompt": [{"type": "text", "text": "a", "annotations": {}}, {"type": "audio", "data": "", "mimeType": "b"}],
        }))
        .unwrap();
        assert!(matches!(&read.prompt[..], [ContentBlock::Text { text }, ContentBlock::Audio {}] if text == "a"));
        for wrong in [
            json!({"sessionId": "s"}),
            json!({"sessionId": 1, "prompt": []}),
            json!({"sessionId": "s", "prompt": [{"type": "video"}]}),
            json!({"sessionId": "s", "prompt": "hi"}),
            json!({"sessionId": "s", "prompt": "x".repeat(1_000_000)}),
            json!([]),
            json!(null),
        ] {
            let error = params::<PromptParams>(wrong.clone()).unwrap_err();
            assert_eq!(error.code, RpcError::INVALID_PARAMS, "{wrong:.100}");
            assert!(error.message.chars().count() <= limits::FAILURE_SHOWN_CHARS + 50, "{wrong:.100}");
        }
        let resource = json!([{"type": "resource", "resource": {"uri": "a"}}]);
        let error = params::<PromptParams>(json!({"sessionId": "s", "prompt": resource})).unwrap_err();
        assert!(error.message.contains("must have a `uri`, and a `text` or a `blob`"), "{}", error.message);
        let capabilities =
            json!({"fs": {"readTextFile": true}, "session": {"notices": {}}, "elicitation": {"url": {}}});
        let initialize = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let read = params::<InitializeParams>(initialize).unwrap().client_capabilities;
        assert_eq!((read.has_notices(), read.has_forms()), (true, false));
        assert_eq!((read.reads_files(), read.writes_files()), (true, false));
    }
}
