//! The tools of a server, bounded and checked.

use std::sync::Arc;

use rmcp::{
    Peer, RoleClient,
    model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool},
};
use serde_json::Value;

use super::{
    names::tool_name,
    paging::{ListedItem, ReadItems, RefusedItem, check_items, list_pages},
    tool_digest::tool_digest,
};
use shelly_core::{
    chat::{ToolHints, ToolSpec},
    limits,
    tool::{described, looks_like},
};

/// The tools of a server at one moment.
#[derive(Debug, Clone, Default)]
pub struct McpToolListing {
    /// The tools that can be offered to a model, in the server's order.
    pub tools: Vec<Arc<ServerTool>>,
    /// The tools that cannot be offered.
    pub refused: Vec<RefusedItem>,
}

/// A tool of a server.
#[derive(Debug, Clone)]
pub struct ServerTool {
    /// The server's own name of the tool.
    pub name: String,
    /// The tool's description for a model.
    pub spec: Arc<ToolSpec>,
    /// The digest of the tool's whole description: see [`Pins`](super::Pins).
    pub digest: String,
    /// `true` if the server declares it destructive.
    pub is_destructive: bool,
}

impl McpToolListing {
    /// Returns the tool with this name, the server's own.
    pub fn find(&self, name: &str) -> Option<&Arc<ServerTool>> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    fn check(server: &str, tools: ReadItems<Tool>) -> Self {
        let mut before = Vec::new();
        let (tools, refused) = check_items(tools, limits::MCP_TOOL_NAME_BYTES, |tool| {
            let checked = Arc::new(check_tool(server, &before, tool)?);
            before.push(Arc::clone(&checked));
            Ok(checked)
        });
        Self { tools, refused }
    }

    #[cfg(test)]
    pub(super) fn of_digests<const N: usize>(tools: [(&str, &str); N]) -> Self {
        let tool = |(name, digest): (&str, &str)| {
            let spec =
                described(tool_name("s", name), String::new(), r#"{"type":"object"}"#.into(), hints(&Tool::default()));
            let (name, digest, spec) = (name.into(), digest.into(), Arc::new(spec.unwrap()));
            Arc::new(ServerTool { name, spec, digest, is_destructive: false })
        };
        Self { tools: tools.map(tool).into(), refused: Vec::new() }
    }
}

impl ListedItem for Tool {
    const PLURAL: &'static str = "tools";
    const MOST: usize = limits::MCP_TOOLS;
    const MOST_BYTES: usize = limits::SPECS_BYTES;

    fn page_request(params: PaginatedRequestParams) -> ClientRequest {
        ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params))
    }

    fn page_of(result: ServerResult) -> Option<(Vec<Self>, Option<String>)> {
        let ServerResult::ListToolsResult(page) = result else { return None };
        Some((page.tools, page.next_cursor))
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Checks a tool that is listed after those of `before`.
fn check_tool(server: &str, before: &[Arc<ServerTool>], tool: &Tool) -> Result<ServerTool, String> {
    let schema = Value::Object((*tool.input_schema).clone());
    let description = tool.description.as_deref().unwrap_or_default().to_owned();
    let spec = described(tool_name(server, &tool.name), description, schema.to_string(), hints(tool))?;
    let like = before.iter().find(|there| looks_like(&there.name, &tool.name));
    if let Some(there) = like.or_else(|| before.iter().find(|there| there.spec.name == spec.name)) {
        return Err(format!("the name looks like that of `{}`", there.name));
    }
    let (name, digest, is_destructive) = (tool.name.to_string(), tool_digest(tool), is_destructive(tool));
    Ok(ServerTool { name, spec: Arc::new(spec), digest, is_destructive })
}

/// Returns the hints of a tool. A missing annotation gets the protocol's default, which is the most cautious value.
fn hints(tool: &Tool) -> ToolHints {
    let annotations = tool.annotations.clone().unwrap_or_default();
    ToolHints {
        read_only: annotations.read_only_hint == Some(true),
        non_destructive: annotations.destructive_hint == Some(false),
        idempotent: annotations.idempotent_hint == Some(true),
        closed_world: annotations.open_world_hint == Some(false),
    }
}

/// Returns `true` if the server sets `destructiveHint` and not `readOnlyHint`, beside which it means nothing. By the
/// protocol a tool without hints may be destructive too, but most servers set none, and a person who is asked about every
/// tool no longer reads the questions.
fn is_destructive(tool: &Tool) -> bool {
    let annotations = tool.annotations.clone().unwrap_or_default();
    annotations.destructive_hint == Some(true) && annotations.read_only_hint != Some(true)
}

/// Lists all pages of a server's tools. A server that declares prompts and no tools may refuse: it has none then.
///
/// # Errors
///
/// A message for a person that says why there is no list.
pub(super) async fn list(server: &str, peer: &Peer<RoleClient>) -> Result<McpToolListing, String> {
    // A server that declares no tools is asked nevertheless, since some have them.
    let has_none = declares_prompts(peer) && peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none());
    match list_pages(peer).await {
        Err(_) if has_none => Ok(McpToolListing::default()),
        listed => Ok(McpToolListing::check(server, listed?)),
    }
}

/// Returns `true` if the server declares that it offers prompts.
pub(super) fn declares_prompts(peer: &Peer<RoleClient>) -> bool {
    peer.peer_info().is_some_and(|info| info.capabilities.prompts.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::paging::read_page;

    #[test]
    fn misleading_tool_is_refused_without_affecting_others() {
        let page = json!({"tools": [
            {"name": "read_file", "description": "Reads.", "inputSchema": {"type": "object"},
             "annotations": {"readOnlyHint": true, "destructiveHint": false, "openWorldHint": false}},
            {"name": "no_schema", "inputSchema": {}},
            {"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": true}},
            {"name": "peek", "inputSchema": {"type": "object"},
             "annotations": {"destructiveHint": true, "readOnlyHint": true}},
            {"name": "read-file", "inputSchema": {"type": "object"}},
            {"name": "twice", "inputSchema": {"type": "object"}},
            {"name": "twice", "inputSchema": {"type": "object"}},
            {"name": "hidden", "description": "Adds.\u{200b}", "inputSchema": {"type": "object"}},
            {"name": "long", "description": "x".repeat(limits::TOOL_DESCRIPTION_BYTES + 1), "inputSchema": {}},
            {"name": "text", "inputSchema": {"type": "string"}},
            {"name": "broken", "inputSchema": "none"},
            {"name": "a.dot", "inputSchema": {"type": "object"}},
            {"name": "n".repeat(limits::MCP_TOOL_NAME_BYTES + 1), "inputSchema": {"type": "object"}},
            {"name": "\u{1b}[2Jclear", "inputSchema": {"type": "object"}},
        ], "nextCursor": "2"});
        let (tools, next) = read_page::<Tool>(page).unwrap();
        assert_eq!(next.as_deref(), Some("2"));
        let listing = McpToolListing::check("git", tools);
        let names: Vec<_> = listing.tools.iter().map(|tool| &*tool.spec.name).collect();
        assert_eq!(names[..4], ["git__read_file", "git__no_schema", "git__wipe", "git__peek"]);
        assert!(names[4].starts_with("git__a_dot_") && names.len() == 5, "{names:?}");
        let destructive: Vec<_> =
            listing.tools.iter().filter(|tool| tool.is_destructive).map(|tool| &*tool.name).collect();
        assert_eq!(destructive, ["wipe"], "who says nothing is not taken to say so");
        let hints = listing.find("read_file").unwrap().spec.hints;
        assert_eq!(hints, ToolHints { read_only: true, non_destructive: true, idempotent: false, closed_world: true });
        assert_eq!(listing.find("no_schema").unwrap().spec.hints, ToolHints::default());
        let refused: Vec<_> = listing.refused.iter().map(|refused| (&*refused.name, &*refused.why)).collect();
        for (found, (name, why)) in refused.iter().zip([
            ("read-file", "the name looks like that of `read_file`"),
            ("twice", "several tools have this name"),
            ("twice", "several tools have this name"),
            ("hidden", "the description of `git__hidden` has the invisible character U+200B"),
            ("long", "the description of `git__long` has 8193 bytes, the maximum is 8192"),
            ("text", "the schema of `git__text` does not describe an object"),
            ("broken", "invalid definition: invalid type: string"),
            ("nnn", "the name has more than 128 bytes"),
            ("\u{1b}[2Jclear", "the name has control characters"),
        ]) {
            assert!(found.0.starts_with(name) && found.1.starts_with(why), "{found:?}");
        }
        assert_eq!(refused.len(), 9);
    }
}
