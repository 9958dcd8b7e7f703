use std::sync::Arc;

use url::Url;

use crate::{
    error::{ErrorKind, Report},
    limits,
    mcp::{
        self, LoopbackAuthorizer, McpError, McpHttpTarget, McpTarget, OAuthGrantType, OAuthOptions, ServerConfig,
        TokenStore,
    },
    net::HttpClient,
};

/// Logs in at an MCP server in a browser. The redirect is received on this port of this machine; 0 selects a free one.
/// `show` is given the address to open.
///
/// # Errors
///
/// A [`Report`] with the reason; an earlier login is kept.
pub async fn mcp_login(
    mut config: ServerConfig,
    port: u16,
    show: impl Fn(&Url) + Send + Sync + 'static,
) -> Result<(), Report> {
    if let McpTarget::Http(http) = &mut config.target
        && let Some(oauth) = http.oauth.as_mut().filter(|oauth| oauth.grant == OAuthGrantType::Person)
    {
        let loopback = LoopbackAuthorizer::bind(port, show).await;
        let loopback = loopback.map_err(|fault| {
            Report::new(ErrorKind::Run, fault.to_string()).hint("name another port with --port, or omit --port")
        })?;
        oauth.authorizer = Some(Arc::new(loopback));
    }
    mcp::login(&config).await.map_err(|error| report(&error))
}

/// Forgets the login at an MCP server. Returns `true` if there was one.
///
/// # Errors
///
/// A [`Report`] if it cannot be forgotten.
pub async fn mcp_logout(config: &ServerConfig) -> Result<bool, Report> {
    mcp::logout(config).await.map_err(|error| report(&error))
}

/// Returns the configuration of a server of which only the URL is known; its logins are kept in `store`.
///
/// # Errors
///
/// A [`Report`] if no HTTP client can be built.
pub fn mcp_server_at(url: Url, store: TokenStore) -> Result<ServerConfig, Report> {
    let client = HttpClient::new().map_err(|fault| Report::new(ErrorKind::Run, fault.to_string()))?;
    let (name, oauth) = (named_after(&url), Some(OAuthOptions::new(store)));
    Ok(ServerConfig::new(name, McpTarget::Http(McpHttpTarget { client, url, auth: None, headers: Vec::new(), oauth })))
}

/// Derives a name for a server from its host.
fn named_after(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
    let letters = host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let name: String = letters.skip_while(|c| !c.is_ascii_lowercase()).take(limits::MCP_SERVER_NAME_BYTES).collect();
    if name.is_empty() { "server".into() } else { name }
}

fn report(error: &McpError) -> Report {
    let kind = if matches!(error, McpError::Config { .. }) { ErrorKind::Usage } else { ErrorKind::Run };
    Report::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::check_server_name;

    #[test]
    fn a_server_without_a_name_is_named_after_its_host() {
        for (url, name) in [
            ("https://mcp.example.com:8443/x", "mcp-example-com"),
            ("http://127.0.0.1:1/", "server"),
            ("http://[::1]/", "server"),
            ("https://4u.A.example/", "u-a-example"),
            ("https://a-very-long-name-of-a-host.example/", "a-very-long-name-of-a-ho"),
        ] {
            assert_eq!(named_after(&url.parse().unwrap()), name);
            assert_eq!(check_server_name(name), Ok(()));
        }
    }
}
