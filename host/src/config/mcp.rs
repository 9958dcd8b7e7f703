//! MCP servers in a config: programs that the host starts, or URLs.

use std::{path::PathBuf, time::Duration};

use indexmap::IndexMap;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    Config, HostToolbox, McpServerUse, ToolboxUse, egress::networks, values::SetDuration, variables::expand_at,
};
use crate::{
    error::{ErrorKind, Report},
    limits,
    mcp::{ProtocolRevisions, check_server_name},
    net::header_name,
};

/// A named MCP server: a program, or a URL.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServerConfig {
    /// The name that agents use; it is also the prefix of the server's tool names.
    pub name: String,
    /// The program: a path, or a name that is looked up in `PATH`. It is run without a shell.
    pub command: Option<String>,
    /// The program's arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables of the program. It gets only these, `PATH`, `HOME` and the host's nesting counter. `${NAME}`
    /// stands for a variable of the host's environment.
    #[serde(default)]
    pub env: IndexMap<String, String>,
    /// The program's working directory; a relative path is below the config's root. `None`: the root.
    pub cwd: Option<PathBuf>,
    /// The server's URL; `${NAME}` stands for an environment variable.
    pub url: Option<String>,
    /// Headers of each request besides those of the protocol; `${NAME}` as in `url`.
    #[serde(default)]
    pub headers: IndexMap<String, String>,
    /// OAuth settings, for servers without an authentication header; `None`: the settings that the server announces when it
    /// asks for a login.
    pub oauth: Option<OAuthConfig>,
    /// The protocol revisions that the host may negotiate with it.
    #[serde(default)]
    pub protocol: McpProtocol,
    /// Folders that the host announces to it as roots, besides those that the project's permissions approve; `None`: no
    /// roots at all, not even approved ones.
    #[schemars(length(max = limits::MCP_ROOTS))]
    pub roots: Option<Vec<PathBuf>>,
    /// Time limit for starting or reaching it, including the handshake.
    #[serde(default = "connect_time", with = "SetDuration")]
    pub connect_timeout: Duration,
    /// Time limit of one call, without the time in which the server waits for an answer of the host.
    #[serde(default = "call_time", with = "SetDuration")]
    pub timeout: Duration,
    /// The number of characters of a result that a model is shown.
    #[serde(default = "output_chars")]
    #[schemars(range(min = 1, max = limits::MCP_OUTPUT_CHARS_CEILING))]
    pub output_chars: usize,
}

/// OAuth settings of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuthConfig {
    /// The client id that the authorization server knows; `None`: the client registers itself.
    pub client_id: Option<String>,
    /// The client secret; `${NAME}` stands for an environment variable.
    pub client_secret: Option<String>,
    /// The URL of the client metadata document, for authorization servers that support it; it then serves as the client
    /// id.
    pub client_metadata_url: Option<String>,
    /// The scopes to request; empty: those that the server names.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The party that logs in.
    #[serde(default)]
    pub grant: LoginGrant,
    /// The issuer that knows `client_id`, which is sent to no other issuer. `None`: the issuer that the server names.
    pub issuer: Option<String>,
    /// Networks that the authorization server's address may lie in besides the public Internet, as 10.0.0.0/8.
    #[serde(default)]
    pub networks: Vec<String>,
}

impl OAuthConfig {
    /// Returns the parsed networks. If one cannot be parsed the list is empty; a checked config has no such entry.
    pub fn networks(&self) -> Vec<IpNet> {
        networks(&self.networks).unwrap_or_default()
    }
}

/// The party that logs in to a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoginGrant {
    /// A person, in a browser.
    #[default]
    Person,
    /// The program itself, with its `client_id` and `client_secret`.
    Client,
}

/// The protocol revisions that the host speaks with a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpProtocol {
    /// The newest that the server knows.
    #[default]
    Any,
    /// Revisions that begin with a handshake, up to 2025-11-25.
    Handshake,
    /// Revisions without a handshake, from 2026-07-28 on.
    Stateless,
}

impl From<McpProtocol> for ProtocolRevisions {
    fn from(protocol: McpProtocol) -> Self {
        match protocol {
            McpProtocol::Any => Self::Any,
            McpProtocol::Handshake => Self::Handshake,
            McpProtocol::Stateless => Self::Stateless,
        }
    }
}

fn connect_time() -> Duration {
    limits::MCP_CONNECT_TIME
}

fn call_time() -> Duration {
    limits::TOOL_TIME
}

fn output_chars() -> usize {
    limits::TOOL_RESULT_CHARS
}

impl McpServerConfig {
    /// Returns the host name or address in `url`, which may be shown: the rest of it may hold credentials. `None` if there is no
    /// URL, or if it has variables in this place.
    pub fn host_name(&self) -> Option<String> {
        let url = Url::parse(self.url.as_deref()?).ok()?;
        url.host_str().filter(|host| !host.contains("${")).map(str::to_owned)
    }

    /// Replaces each `${NAME}` in `value`, the value of `key`, by the environment variable of that name.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a variable is not set.
    pub fn expand(
        &self,
        key: &str,
        value: &str,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, Report> {
        let unset = |variable: &str| {
            Report::new(ErrorKind::Usage, format!("the environment variable {variable} is not set"))
                .hint(format!("set {variable}, or remove the server from the agent's `toolboxes`"))
        };
        expand_at(&format!("mcp_servers.{}.{key} in the config", self.name), value, environment, unset)
    }

    /// Checks what serde cannot express.
    pub(super) fn check(&self) -> Result<(), Report> {
        let usage = |what: String| Report::new(ErrorKind::Usage, what);
        let at = format!("mcp_servers.{}", self.name.escape_debug());
        check_server_name(&self.name).map_err(|why| usage(format!("mcp_servers: {why}")))?;
        if HostToolbox::is_reserved(&self.name) {
            return Err(usage(format!("{at}: a toolbox of the host has this name")).hint("rename the server"));
        }
        let of_programs = [("args", !self.args.is_empty()), ("env", !self.env.is_empty()), ("cwd", self.cwd.is_some())];
        let of_addresses = [("headers", !self.headers.is_empty()), ("oauth", self.oauth.is_some())];
        let (wrong, what, with) = match (&self.command, &self.url) {
            (None, None) => {
                let report = usage(format!("{at}: neither `command` nor `url` is set"));
                return Err(report.hint("name the server's program in `command`, or its address in `url`"));
            }
            (Some(_), Some(_)) => {
                return Err(usage(format!("{at}: `command` and `url` are both set")).hint("remove one of them"));
            }
            (Some(_), None) => (&of_addresses[..], "servers with a `url`", "url"),
            (None, Some(_)) => (&of_programs[..], "servers with a `command`", "command"),
        };
        if let Some((key, _)) = wrong.iter().find(|(_, is_set)| *is_set) {
            let hint = format!("remove `{key}`, or set `{with}`");
            return Err(usage(format!("{at}.{key}: valid only for {what}")).hint(hint));
        }
        if self.command.as_deref().is_some_and(|command| command.trim().is_empty()) {
            return Err(usage(format!("{at}.command: is empty")).hint("name the program"));
        }
        if let Some(name) = self.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(usage(format!(
                "{at}.env: `{}` is not the name of an environment variable",
                name.escape_debug()
            )));
        }
        for name in self.headers.keys() {
            header_name(name).map_err(|fault| usage(format!("{at}.headers: {fault}")))?;
        }
        // A URL with variables is checked once they are replaced.
        if let Some(url) = self.url.as_deref().filter(|url| !url.contains("${")) {
            check_url(url).map_err(|why| {
                usage(format!("{at}.url: {why}"))
                    .hint("write the URL with its scheme: `url: https://mcp.example.com/mcp`")
            })?;
        }
        if let Some(oauth) = &self.oauth {
            if oauth.networks.len() > limits::HTTP_ENTRY_WORDS {
                return Err(usage(format!(
                    "{at}.oauth.networks: must have at most {} entries",
                    limits::HTTP_ENTRY_WORDS
                )));
            }
            networks(&oauth.networks).map_err(|why| usage(format!("{at}.oauth.{why}")))?;
        }
        let most = limits::PLUGIN_TIME_CEILING;
        for (key, time) in [("connect_timeout", self.connect_timeout), ("timeout", self.timeout)] {
            if time > most {
                return Err(usage(format!("{at}.{key}: must be at most {}", humantime::format_duration(most))));
            }
        }
        if !(1..=limits::MCP_OUTPUT_CHARS_CEILING).contains(&self.output_chars) {
            return Err(usage(format!("{at}.output_chars: must be 1 to {}", limits::MCP_OUTPUT_CHARS_CEILING)));
        }
        if self.roots.as_ref().is_some_and(|roots| roots.len() > limits::MCP_ROOTS) {
            return Err(usage(format!("{at}.roots: must have at most {} folders", limits::MCP_ROOTS)));
        }
        Ok(())
    }
}

impl Config {
    /// Adds servers that are not in its files, with all of their tools, to every agent. Returns why one cannot be added, for
    /// each of those.
    pub fn add_servers(&mut self, servers: Vec<McpServerConfig>) -> Vec<Report> {
        let mut refused = Vec::new();
        for server in servers {
            let is_taken = self.mcp_servers.iter().any(|known| known.name == server.name);
            let taken = || {
                let message = format!("the config has an MCP server `{}` already", server.name.escape_debug());
                Report::new(ErrorKind::Usage, message).hint("give one of them another name")
            };
            if let Err(report) = if is_taken { Err(taken()) } else { server.check() } {
                refused.push(report);
                continue;
            }
            let uses = McpServerUse { name: server.name.clone(), ..McpServerUse::default() };
            match self.agents.is_empty() {
                // The toolboxes of a config are those of its default agent.
                true => self.toolboxes.push(ToolboxUse::Server(uses)),
                false => {
                    self.agents.iter_mut().for_each(|agent| agent.toolboxes.push(ToolboxUse::Server(uses.clone())));
                }
            }
            self.mcp_servers.push(server);
        }
        refused
    }
}

/// Parses the URL of a server.
///
/// # Errors
///
/// A message that says what is wrong. It quotes nothing of the URL, which may hold a credential.
pub fn check_url(url: &str) -> Result<Url, String> {
    let url = Url::parse(url).map_err(|error| format!("not a URL: {error}"))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err("must begin with http:// or https://".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Report> {
        Config::parse(text, "/project".into())
    }

    #[test]
    fn servers_are_added_to_all_agents() {
        let server = |name: &str| McpServerConfig {
            name: name.into(),
            command: Some("srv".into()),
            output_chars: 1,
            ..McpServerConfig::default()
        };
        for (text, agents) in [("agents: [{name: a}, {name: b}]", 2), ("", 0)] {
            let mut config = parse(text).unwrap();
            let servers = vec![server("files"), server("files"), server("an odd name"), server("exec")];
            let refused: Vec<_> = config.add_servers(servers).iter().map(ToString::to_string).collect();
            assert_eq!(refused.len(), 3, "{refused:?}");
            assert!(refused[0].contains("has an MCP server `files` already"), "{refused:?}");
            let has_it = |uses: &Vec<ToolboxUse>| uses.iter().filter(|uses| uses.name() == "files").count() == 1;
            assert_eq!(config.agents.iter().filter(|agent| has_it(&agent.toolboxes)).count(), agents);
            assert_eq!(has_it(&config.toolboxes), agents == 0);
        }
    }

    #[test]
    fn mcp_server_config_is_parsed() {
        let text = "mcp_servers:\n\
                    - {name: files, command: npx, args: [-y, server, docs], env: {TOKEN: '${TOKEN}'}, cwd: sub, roots: [docs]}\n\
                    - {name: web, url: 'https://host/mcp', headers: {x-key: '${KEY}'}, timeout: 5s, output_chars: 100,\n\
                    \x20  protocol: stateless, connect_timeout: 7s, oauth: {client_id: us, client_secret: '${SECRET}',\n\
                    \x20  client_metadata_url: 'https://us/client.json', scopes: [read],\n\
                    \x20  grant: client, issuer: 'https://login.example', networks: [10.0.0.0/8]}}\n\
                    agents: [{name: a, toolboxes: [files, {name: web, tools: [find], confirm: true, sampling: true}]}]";
        let config = parse(text).unwrap_or_else(|report| panic!("{report:?}"));
        let [files, web] = &config.mcp_servers[..] else { panic!() };
        assert_eq!((files.command.as_deref(), files.args.len(), files.timeout), (Some("npx"), 3, limits::TOOL_TIME));
        assert_eq!((web.timeout, web.output_chars, web.roots.is_none()), (Duration::from_secs(5), 100, true));
        assert_eq!((web.protocol, web.connect_timeout), (McpProtocol::Stateless, Duration::from_secs(7)));
        let oauth = OAuthConfig {
            client_id: Some("us".into()),
            client_secret: Some("${SECRET}".into()),
            client_metadata_url: Some("https://us/client.json".into()),
            scopes: vec!["read".into()],
            grant: LoginGrant::Client,
            issuer: Some("https://login.example".into()),
            networks: vec!["10.0.0.0/8".into()],
        };
        assert_eq!(web.oauth, Some(oauth));
        let uses: Vec<_> = config.agents[0].toolboxes.iter().filter_map(ToolboxUse::server).collect();
        assert_eq!(uses[0], &McpServerUse { name: "files".into(), ..McpServerUse::default() });
        assert_eq!(
            uses[1],
            &McpServerUse {
                name: "web".into(),
                tools: Some(vec!["find".into()]),
                confirm: Some(true),
                sampling: true,
                elicitation: false
            }
        );
    }

    #[test]
    fn invalid_mcp_server_is_refused_with_reason() {
        for (keys, says) in [
            ("name: '', command: x", "invalid server name"),
            ("name: Git, command: x", "mcp_servers: invalid server name `Git`"),
            ("name: tasks, command: x", "mcp_servers.tasks: a toolbox of the host has this name"),
            ("name: git, command: x", "mcp_servers.git: a toolbox of the host has this name"),
            ("name: s", "mcp_servers.s: neither `command` nor `url` is set"),
            ("name: s, command: x, url: 'https://h'", "mcp_servers.s: `command` and `url` are both"),
            ("name: s, command: ' '", "mcp_servers.s.command: is empty"),
            ("name: s, command: x, headers: {a: b}", "mcp_servers.s.headers: valid only for servers with a `url`"),
            ("name: s, command: x, oauth: {}", "mcp_servers.s.oauth: valid only for servers with a `url`"),
            ("name: s, url: 'https://h', args: [a]", "mcp_servers.s.args: valid only for servers with a `command`"),
            ("name: s, url: 'https://h', cwd: a", "mcp_servers.s.cwd: valid only for servers with a `command`"),
            ("name: s, url: 'ftp://pw-1@h'", "mcp_servers.s.url: must begin with http:// or"),
            ("name: s, url: 'pw-1'", "mcp_servers.s.url: not a URL"),
            ("name: s, url: 'https://h', headers: {'a b': c}", "mcp_servers.s.headers: invalid header name `a b`"),
            ("name: s, url: 'https://h', oauth: {networks: [x]}", "mcp_servers.s.oauth.networks: `x` is not a network"),
            (
                "name: s, command: x, env: {'A=B': c}",
                "mcp_servers.s.env: `A=B` is not the name of an environment variable",
            ),
            ("name: s, command: x, timeout: 30d", "mcp_servers.s.timeout: must be at most"),
            ("name: s, command: x, timeout: 0s", "must be more than 0"),
            ("name: s, command: x, output_chars: 0", "mcp_servers.s.output_chars: must be 1 to"),
            ("name: s, command: x, output_chars: 99999999", "mcp_servers.s.output_chars: must be 1 to"),
            ("name: s, command: x}, {name: s, command: y", "mcp_servers: two entries have the name `s`"),
            ("name: s, comand: x", "there is no key `comand`"),
            ("name: s, command: x, protocol: old", "`protocol` cannot be `old`"),
        ] {
            let report = parse(&format!("mcp_servers: [{{{keys}}}]")).unwrap_err();
            let shown = format!("{report:?}");
            let cause = report.causes.concat();
            assert!(report.to_string().contains(says) || cause.contains(says), "{keys}\n{shown}");
            assert!(!shown.contains("pw-1"), "{shown}");
        }
        let roots = vec!["r"; limits::MCP_ROOTS + 1].join(", ");
        let report = parse(&format!("mcp_servers: [{{name: s, command: x, roots: [{roots}]}}]")).unwrap_err();
        assert!(report.to_string().contains("mcp_servers.s.roots: must have at most 256"), "{report}");
    }

    #[test]
    fn agent_use_of_mcp_server_is_checked() {
        let server = "mcp_servers: [{name: files, command: x}]\n";
        for (toolboxes, says, hint) in [
            ("[fils]", "there is no toolbox or MCP server `fils`", "did you mean `files`?"),
            ("[{name: files, ns: x}]", "`ns` is not valid for `files`", "remove `ns`"),
            ("[{name: ask, confirm: true}]", "`confirm` is not valid for `ask`", "remove `confirm`"),
            (
                "[files, {name: files, tools: [a]}]",
                "agents.a.toolboxes: `files` appears twice",
                "merge the two entries",
            ),
        ] {
            let report = parse(&format!("{server}agents: [{{name: a, toolboxes: {toolboxes}}}]")).unwrap_err();
            let said = report.to_string() + &report.causes.concat();
            assert!(said.contains(says), "{toolboxes}\n{report:?}");
            assert!(report.hint.as_deref().unwrap_or_default().contains(hint), "{toolboxes}\n{report:?}");
        }
        for key in ["use", "delegable.grant"] {
            let at = |name: &str| match key {
                "use" => format!("{server}agents: [{{name: a, use: {{mcp: [{name}]}}}}]"),
                _ => format!("{server}agents: [{{name: a, delegable: {{grant: {{mcp: [{name}]}}}}}}]"),
            };
            assert!(parse(&at("files")).is_ok());
            let report = parse(&at("fils")).unwrap_err();
            let said = format!("there is no MCP server `fils`: named by agents.a.{key}.mcp");
            assert_eq!(report.to_string(), said);
        }
    }
}
