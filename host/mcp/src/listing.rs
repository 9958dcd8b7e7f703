//! The tools of a server: all pages of its list, bounded and checked.

use std::{collections::HashMap, sync::Arc};

use rmcp::{
    Peer, RoleClient,
    model::{ClientRequest, ListToolsRequest, ListToolsResult, PaginatedRequestParams, ServerResult, Tool},
    service::{PeerRequestOptions, ServiceError},
};
use serde_json::Value;

use super::{error_text::shown, names::tool_name, tool_digest::tool_digest};
use shelly_core::{
    chat::{ToolHints, ToolSpec},
    error::{acts_on_terminal, cut},
    limits,
    tool::{described, looks_like},
};

/// The tools of a server at one moment.
#[derive(Debug, Clone, Default)]
pub struct McpToolListing {
    /// The tools that can be offered to a model, in the server's order.
    pub tools: Vec<Arc<ServerTool>>,
    /// The tools that cannot be offered.
    pub refused: Vec<RefusedTool>,
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

/// A server's tool that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedTool {
    /// The server's own name of the tool, cut.
    pub name: String,
    /// The reason for the refusal.
    pub why: String,
}

impl McpToolListing {
    /// Returns the tool with this name, the server's own.
    pub fn find(&self, name: &str) -> Option<&Arc<ServerTool>> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Checks each tool. A refused tool does not affect the others.
    fn check(server: &str, tools: Vec<Result<Tool, RefusedTool>>) -> Self {
        let mut named = HashMap::<String, usize>::new();
        for tool in tools.iter().flatten() {
            *named.entry(tool.name.to_string()).or_default() += 1;
        }
        let mut listing = Self::default();
        for tool in tools {
            let checked = tool.and_then(|tool| {
                let why = |why| RefusedTool { name: cut(&tool.name, limits::NAME_SHOWN_CHARS), why };
                if named[&*tool.name] > 1 {
                    return Err(why("several tools have this name".into()));
                }
                if tool.name.len() > limits::MCP_TOOL_NAME_BYTES {
                    return Err(why(format!("the name has more than {} bytes", limits::MCP_TOOL_NAME_BYTES)));
                }
                if tool.name.contains(acts_on_terminal) {
                    return Err(why("the name has control characters".into()));
                }
                let checked = listing.check_one(server, &tool).map_err(why)?;
                Ok(Arc::new(checked))
            });
            match checked {
                Ok(tool) => listing.tools.push(tool),
                Err(refused) => listing.refused.push(refused),
            }
        }
        listing
    }

    fn check_one(&self, server: &str, tool: &Tool) -> Result<ServerTool, String> {
        let schema = Value::Object((*tool.input_schema).clone());
        let description = tool.description.as_deref().unwrap_or_default().to_owned();
        let spec = described(tool_name(server, &tool.name), description, schema.to_string(), hints(tool))?;
        let like = self.tools.iter().find(|there| looks_like(&there.name, &tool.name));
        if let Some(there) = like.or_else(|| self.tools.iter().find(|there| there.spec.name == spec.name)) {
            return Err(format!("the name looks like that of `{}`", there.name));
        }
        let (name, digest, is_destructive) = (tool.name.to_string(), tool_digest(tool), is_destructive(tool));
        Ok(ServerTool { name, spec: Arc::new(spec), digest, is_destructive })
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

/// Lists all pages of a server's tools.
///
/// # Errors
///
/// A message for a person that says why there is no list.
pub(super) async fn list(server: &str, peer: &Peer<RoleClient>) -> Result<McpToolListing, String> {
    let all = pages(peer);
    let tools = tokio::time::timeout(limits::MCP_LIST_TIME, all).await;
    let tools = tools.map_err(|_| format!("no list within {:?}", limits::MCP_LIST_TIME))??;
    Ok(McpToolListing::check(server, tools))
}

async fn pages(peer: &Peer<RoleClient>) -> Result<Vec<Result<Tool, RefusedTool>>, String> {
    let (mut tools, mut bytes, mut cursor) = (Vec::new(), 0, None::<String>);
    for _ in 0..limits::MCP_PAGES {
        let (page, next) = page(peer, cursor.clone()).await?;
        bytes += page.iter().map(bytes_of).sum::<usize>();
        tools.extend(page);
        if tools.len() > limits::MCP_TOOLS {
            return Err(format!("more than {} tools", limits::MCP_TOOLS));
        }
        if bytes > limits::SPECS_BYTES {
            return Err(format!("the descriptions of the tools have more than {} bytes", limits::SPECS_BYTES));
        }
        match next {
            None => return Ok(tools),
            Some(next) if next.len() > limits::MCP_CURSOR_BYTES => {
                return Err(format!("the cursor of the next page has more than {} bytes", limits::MCP_CURSOR_BYTES));
            }
            Some(next) if cursor.as_ref() == Some(&next) => return Err("the cursor of the next page repeats".into()),
            next => cursor = next,
        }
    }
    Err(format!("more than {} pages", limits::MCP_PAGES))
}

type McpToolPage = (Vec<Result<Tool, RefusedTool>>, Option<String>);

async fn page(peer: &Peer<RoleClient>, cursor: Option<String>) -> Result<McpToolPage, String> {
    let params = PaginatedRequestParams::default().with_cursor(cursor);
    // Not through the list method of `rmcp`, which may return a cached page.
    let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
    let sent = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
    let answered = match sent {
        Ok(sent) => sent.await_response().await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(ServerResult::ListToolsResult(ListToolsResult { tools, next_cursor, .. })) => {
            Ok((tools.into_iter().map(Ok).collect(), next_cursor))
        }
        // A tool that cannot be parsed does not make the others unusable.
        Ok(ServerResult::CustomResult(other)) => {
            read_page(other.0).ok_or_else(|| "the list of tools is invalid".into())
        }
        Ok(_) => Err("the answer is not a list of tools".into()),
        Err(ServiceError::McpError(error)) => Err(shown(&error.message)),
        Err(error) => Err(shown(&error.to_string())),
    }
}

fn read_page(mut page: Value) -> Option<McpToolPage> {
    let Value::Array(tools) = page.get_mut("tools")?.take() else { return None };
    let next = page.get("nextCursor").and_then(|next| next.as_str()).map(str::to_owned);
    let read = |tool: Value| {
        let name = cut(tool.get("name").and_then(|name| name.as_str()).unwrap_or_default(), limits::NAME_SHOWN_CHARS);
        serde_json::from_value(tool)
            .map_err(|error| RefusedTool { name, why: shown(&format!("invalid definition: {error}")) })
    };
    Some((tools.into_iter().map(read).collect(), next))
}

/// Returns the size of a tool's whole description as JSON, in bytes.
fn bytes_of(tool: &Result<Tool, RefusedTool>) -> usize {
    tool.as_ref().map_or(0, |tool| serde_json::to_string(tool).map_or(0, |json| json.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        let (tools, next) = read_page(page).unwrap();
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
