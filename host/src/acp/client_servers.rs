//! MCP servers that the editor brings. They are programs and addresses that a client names, so the operator names those
//! that are used.

use super::protocol::{EditorMcpServer, NamedValue};
use crate::{
    config::McpServerConfig,
    error::{cut, legible},
    limits,
};

/// The servers that may be used, and a sentence about each other one.
#[derive(Debug, Default)]
pub(super) struct AdmittedServers {
    pub servers: Vec<McpServerConfig>,
    pub refused: Vec<String>,
}

/// Chooses the servers that the operator allows by name.
pub(super) fn admit_servers(offered: Vec<EditorMcpServer>, allowed: &[String]) -> AdmittedServers {
    let mut admitted = AdmittedServers::default();
    let beyond = offered.len().saturating_sub(limits::ACP_CLIENT_SERVERS);
    if beyond > 0 {
        let most = limits::ACP_CLIENT_SERVERS;
        admitted.refused.push(format!("{beyond} MCP servers of the editor are not used: the maximum is {most}"));
    }
    for server in offered.into_iter().take(limits::ACP_CLIENT_SERVERS) {
        let name = cut(&legible(&server.name), limits::NAME_SHOWN_CHARS);
        let refuse = |why: &str| format!("the MCP server `{name}` of the editor is not used: {why}");
        if !allowed.contains(&server.name) {
            let why = format!("start shelly-host acp with --allow-client-mcp {name} to allow it");
            admitted.refused.push(refuse(&why));
            continue;
        }
        match config_of(server) {
            Ok(server) => admitted.servers.push(server),
            Err(why) => admitted.refused.push(refuse(&why)),
        }
    }
    admitted
}

/// Returns the config of a server as a person would write it.
fn config_of(server: EditorMcpServer) -> Result<McpServerConfig, String> {
    let EditorMcpServer { name, transport, command, args, env, url, headers } = server;
    let of_pairs = env.iter().chain(&headers).flat_map(|pair| [&pair.name, &pair.value]);
    let texts: Vec<&String> = command.iter().chain(&url).chain(&args).chain(of_pairs).collect();
    if texts.iter().map(|text| text.len()).sum::<usize>() > limits::ACP_CLIENT_SERVER_BYTES {
        return Err(format!("its settings have more than {} bytes", limits::ACP_CLIENT_SERVER_BYTES));
    }
    // In a config this stands for a variable of the host's environment, such as a key.
    if texts.iter().any(|text| text.contains("${")) {
        return Err("its settings name environment variables, which an editor may not read".into());
    }
    let pairs = |pairs: Vec<NamedValue>| pairs.into_iter().map(|NamedValue { name, value }| (name, value)).collect();
    Ok(match transport.as_deref() {
        None | Some("stdio") => McpServerConfig { name, command, args, env: pairs(env), ..with_times() },
        Some("http") => McpServerConfig { name, url, headers: pairs(headers), ..with_times() },
        Some(_) => return Err("its transport is not supported; use http, or a program".into()),
    })
}

/// Returns a config with the times that one without keys has.
fn with_times() -> McpServerConfig {
    McpServerConfig {
        connect_timeout: limits::MCP_CONNECT_TIME,
        timeout: limits::TOOL_TIME,
        output_chars: limits::TOOL_RESULT_CHARS,
        ..McpServerConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_allowed_servers_are_used() {
        let allowed = ["files".to_owned(), "web".to_owned()];
        let program =
            |name: &str, argument: &str| json!({"name": name, "command": "/bin/srv", "args": [argument], "env": []});
        let headers = json!([{"name": "A", "value": "b"}]);
        let web = |kind: &str, url: &str| json!({"type": kind, "name": "web", "url": url, "headers": headers});
        for (server, refused) in [
            (program("files", "x"), None),
            (web("http", "https://example.com/mcp"), None),
            (program("other", "x"), Some("--allow-client-mcp other")),
            (program("files", "${ANTHROPIC_API_KEY}"), Some("environment variables")),
            (web("http", "https://example.com/${KEY}"), Some("environment variables")),
            (web("sse", "https://example.com/mcp"), Some("its transport is not supported")),
            (program("files", &"x".repeat(limits::ACP_CLIENT_SERVER_BYTES)), Some("more than")),
        ] {
            let offered: Value = json!([server]);
            let admitted = admit_servers(serde_json::from_value(offered).unwrap(), &allowed);
            match refused {
                None => assert_eq!((admitted.servers.len(), admitted.refused), (1, Vec::new()), "{server:.80}"),
                Some(why) => {
                    assert!(admitted.servers.is_empty() && admitted.refused[0].contains(why), "{admitted:?}");
                }
            }
        }
        let many = vec![program("files", "x"); limits::ACP_CLIENT_SERVERS + 1];
        let admitted = admit_servers(serde_json::from_value(json!(many)).unwrap(), &allowed);
        assert_eq!((admitted.servers.len(), admitted.refused.len()), (limits::ACP_CLIENT_SERVERS, 1));
        assert!(admitted.refused[0].starts_with("1 MCP servers of the editor"));
    }
}
