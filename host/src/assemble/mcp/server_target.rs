//! The program or address of an MCP server with the values of its environment, its login, and its secrets.

use std::path::{Path, PathBuf};

use url::{Position, Url};

use crate::{
    assemble::{App, http_models::http_client},
    config::{LoginGrant, McpServerConfig, OAuthConfig, check_url, unknown, variables},
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    limits,
    mcp::{McpHttpTarget, McpStdioTarget, McpTarget, OAuthGrantType, OAuthOptions, ServerConfig},
    net::{HttpClientConfig, Secret, is_readable_on_the_way},
};

impl App {
    /// Warns if a server cannot be started or reached as configured, as far as possible without trying.
    pub(crate) fn doubt_of_server(&self, name: &str) -> Option<String> {
        let server = self.server_config(name).ok()?;
        let doubt = self.server_target(server).err();
        // A missing variable may be set where the agent is run.
        doubt.map(|report| format!("mcp_servers.{name}: {report}"))
    }

    pub(super) fn server_config(&self, name: &str) -> Result<&McpServerConfig, Report> {
        let found = self.config.mcp_servers.iter().find(|server| server.name == name);
        let names = self.config.mcp_servers.iter().map(|server| server.name.as_str());
        found.ok_or_else(|| unknown("MCP server", name, names))
    }

    /// Returns the SHA-256 digest of a server's program or address: an approval of one does not carry over to another.
    pub(super) fn target_digest(&self, server: &McpServerConfig) -> String {
        let McpServerConfig { command, args, cwd, url, .. } = server;
        let cwd = self.folder(cwd.as_deref());
        let target = serde_json::json!([command, args, url, cwd.to_string_lossy()]).to_string();
        Sha256Digest::of(target).to_string()
    }

    fn folder(&self, cwd: Option<&Path>) -> PathBuf {
        cwd.map_or_else(|| self.config.root.clone(), |cwd| self.config.root.join(cwd))
    }

    /// Returns how many instances of this program have started each other, up to this one.
    pub(super) fn nested(&self) -> u32 {
        let nested = (self.environment)(NESTED).and_then(|nested| nested.parse::<u32>().ok());
        nested.unwrap_or_default().min(limits::MCP_NESTED)
    }

    pub(super) fn server_target(&self, server: &McpServerConfig) -> Result<ServerConfig, Report> {
        let expand = |key: String, value: &str| server.expand(&key, value, &*self.environment);
        let target = match (&server.command, &server.url) {
            (Some(command), _) => {
                let inherited = INHERITED.into_iter().filter(|name| !server.env.contains_key(*name));
                let inherited =
                    inherited.filter_map(|name| Some((name.to_owned(), Secret::new((self.environment)(name)?))));
                let own = server.env.iter().map(|(name, value)| {
                    Ok::<_, Report>((name.clone(), Secret::new(expand(format!("env.{name}"), value)?)))
                });
                let nested = (NESTED.to_owned(), Secret::new((self.nested() + 1).to_string()));
                let environment = inherited.map(Ok).chain(own).chain([Ok(nested)]).collect::<Result<_, _>>()?;
                let (program, arguments) = (command.clone(), server.args.clone());
                McpTarget::Program(McpStdioTarget {
                    program,
                    arguments,
                    environment,
                    folder: self.folder(server.cwd.as_deref()),
                })
            }
            (None, url) => {
                let url = expand("url".into(), url.as_deref().unwrap_or_default())?;
                let url = check_url(&url)
                    .map_err(|why| Report::new(ErrorKind::Usage, format!("mcp_servers.{}.url: {why}", server.name)))?;
                let header = |(name, value): (&String, &String)| {
                    Ok::<_, Report>((name.clone(), Secret::new(expand(format!("headers.{name}"), value)?)))
                };
                let headers = server.headers.iter().map(header).collect::<Result<_, _>>()?;
                let oauth = self.login(server, &url)?;
                McpTarget::Http(McpHttpTarget {
                    client: http_client(HttpClientConfig::default())?,
                    url,
                    auth: None,
                    headers,
                    oauth,
                })
            }
        };
        Ok(ServerConfig {
            revisions: server.protocol.into(),
            connect_time: server.connect_timeout,
            call_time: server.timeout,
            output_chars: server.output_chars,
            ..ServerConfig::new(server.name.as_str(), target)
        })
    }

    /// Returns the OAuth options for a server; `None` if there is no store of logins. Without `oauth` in the config it is also
    /// `None` if an `authorization` header is set, or if the connection is not encrypted.
    fn login(&self, server: &McpServerConfig, url: &Url) -> Result<Option<OAuthOptions>, Report> {
        let Some(store) = self.logins.clone() else { return Ok(None) };
        let has_header = server.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        if server.oauth.is_none() && (has_header || is_readable_on_the_way(url)) {
            return Ok(None);
        }
        let oauth = server.oauth.clone().unwrap_or_default();
        let networks = oauth.networks();
        let OAuthConfig { client_id, client_secret, client_metadata_url, scopes, grant, issuer, networks: _ } = oauth;
        let expand = |key: &str, value: Option<String>| {
            value.map(|value| server.expand(&format!("oauth.{key}"), &value, &*self.environment)).transpose()
        };
        let metadata_url = client_metadata_url.map(|url| check_url(&url)).transpose().map_err(|why| {
            Report::new(ErrorKind::Usage, format!("mcp_servers.{}.oauth.client_metadata_url: {why}", server.name))
        })?;
        let grant = match grant {
            LoginGrant::Person => OAuthGrantType::Person,
            LoginGrant::Client => OAuthGrantType::Client,
        };
        Ok(Some(OAuthOptions {
            grant,
            client_id: expand("client_id", client_id)?,
            client_secret: expand("client_secret", client_secret)?.map(Secret::new),
            issuer,
            metadata_url,
            scopes,
            networks,
            ..OAuthOptions::new(store)
        }))
    }

    /// Returns the configuration of a server to log in to.
    ///
    /// # Errors
    ///
    /// A [`Report`]: there is no such server, it is a program, or its config cannot be used.
    pub fn server_to_log_in(&self, name: &str) -> Result<ServerConfig, Report> {
        let server = self.server_config(name)?;
        if server.command.is_some() {
            return Err(Report::new(
                ErrorKind::Usage,
                format!("the MCP server `{name}` is a program and has no login"),
            )
            .hint("pass its credentials under `env`"));
        }
        self.server_target(server)
    }

    /// Returns the known secrets of servers, which must not be recorded.
    pub(crate) fn secrets_of_servers(&self) -> Vec<(String, Secret)> {
        let of = |server: &McpServerConfig| {
            // A value without a variable is usually no secret, and may be a common word.
            let named = |key: String, value: &String| {
                let whole = Some(value).filter(|value| value.contains("${"));
                let whole = whole.and_then(|value| server.expand(&key, value, &*self.environment).ok());
                // A variable within an address or a longer value is a secret by itself, too.
                let own = variables(value).filter(|name| !INHERITED.contains(name));
                let own = own.filter_map(|name| (self.environment)(name));
                let place = format!("mcp_servers.{}.{key}", server.name);
                whole.into_iter().chain(own).map(|value| (place.clone(), Secret::new(value))).collect::<Vec<_>>()
            };
            let env = server.env.iter().flat_map(|(name, value)| named(format!("env.{name}"), value));
            let headers = server.headers.iter().flat_map(|(name, value)| named(format!("headers.{name}"), value));
            let secret = server.oauth.iter().filter_map(|oauth| oauth.client_secret.as_ref());
            let secret = secret.flat_map(|secret| named("oauth.client_secret".into(), secret));
            // The host name is not a secret.
            let host = |url: &str| Url::parse(&server.expand("url", url, &*self.environment).ok()?).ok();
            let host = server
                .url
                .as_deref()
                .and_then(host)
                .map(|url| url[Position::BeforeHost..Position::AfterPort].to_owned());
            let url = server.url.iter().flat_map(|url| named("url".into(), url));
            let url = url.filter(|(_, value)| {
                host.as_ref().is_some_and(|host| !host.contains(&value.expose().to_ascii_lowercase()))
            });
            env.chain(headers).chain(secret).chain(url).collect::<Vec<_>>()
        };
        let all = self.config.mcp_servers.iter().flat_map(of);
        all.flat_map(|(name, secret)| secret.parts().into_iter().map(move |part| (name.clone(), part))).collect()
    }
}

/// Variables that most programs need; a server gets nothing else of the environment.
const INHERITED: [&str; 2] = ["PATH", "HOME"];

/// The variable that tells a started program how many instances of this program stand above it, as it may be one itself.
pub(super) const NESTED: &str = "SHELLY_HOST_NESTED";
