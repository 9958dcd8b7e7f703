//! MCP servers: programs and addresses.

use std::path::PathBuf;

use indexmap::IndexMap;

use super::{
    section::SectionDescription,
    shared_settings::or_null,
    wording::{digest_of, shown_address, shown_command},
};
use crate::{
    config::{
        Config, LoginGrant, McpServerConfig, OAuthConfig,
        effective_setting::{EffectiveSetting, is, set, shown},
        mask::{masked, masked_url},
        variables::variables,
    },
    files,
    trust::{RiskLevel, quoted, quoted_path},
};

pub(super) fn server_section(server: &McpServerConfig, config: &Config) -> SectionDescription {
    let McpServerConfig {
        name,
        command,
        args,
        env,
        cwd,
        url,
        headers,
        oauth,
        protocol,
        roots,
        connect_timeout,
        timeout,
        output_chars,
    } = server;
    let mut section = SectionDescription::default();
    let who = format!("the MCP server {}", quoted(name));
    section.show("name", is(name));
    let folder = cwd.as_ref().map_or_else(|| config.root.clone(), |cwd| config.root.join(cwd));
    if let Some(command) = command {
        let words: Vec<_> = [command.clone()].into_iter().chain(args.iter().cloned()).collect();
        let (command, folder) = (shown_command(&words), quoted_path(&files::resolved(&folder)));
        section
            .disclose(RiskLevel::Runs, format!("{who} is the program {command}, run outside the sandbox in {folder}"));
        for (variable, value) in env {
            for ours in variables(value) {
                let line = format!("{who} gets the environment variable {} as {}", quoted(ours), quoted(variable));
                section.disclose(RiskLevel::Sends, line);
            }
            // A program may act on its environment in any way.
            let line = format!("{who} has {} in its environment (sha256:{})", quoted(variable), digest_of(value));
            section.disclose(RiskLevel::Runs, line);
        }
    }
    match url {
        None => section.show_all([
            ("command", is(command)),
            ("args", is(args)),
            ("env", hidden(env).noted("in addition to PATH and HOME")),
            ("cwd", is(&folder).noted_if(cwd.is_none(), "the root")),
        ]),
        Some(url) => {
            section.show("url", is(&masked_url(url)));
            let shown = shown_address(url);
            section
                .disclose(RiskLevel::Sends, format!("{who} is at {shown}; the arguments of its tools are sent there"));
            for variable in variables(url) {
                let line = format!("{who} has the environment variable {} in its address {shown}", quoted(variable));
                section.disclose(RiskLevel::Sends, line);
            }
            section.show("headers", hidden(headers));
            for variable in headers.values().flat_map(|value| variables(value)) {
                let line = format!("{who} gets the environment variable {} in a header, at {shown}", quoted(variable));
                section.disclose(RiskLevel::Sends, line);
            }
            match oauth {
                Some(oauth) => section.show_section("oauth", oauth_section(&who, oauth)),
                None => section.show("oauth", is(&()).noted("as the server requires")),
            }
        }
    }
    // The protocol revision.
    section.show("protocol", set(protocol));
    let roots = roots.as_ref().map(|roots| roots.iter().map(|root| config.root.join(root)).collect::<Vec<PathBuf>>());
    section.show("roots", is(&roots).noted_if(roots.is_none(), "no folder is announced"));
    for folder in roots.iter().flatten() {
        let folder = quoted_path(&files::resolved(folder));
        section.disclose(RiskLevel::Little, format!("{who} is given the folder {folder} as a root"));
    }
    // Limits of time and size.
    section.show("connect_timeout", is(&shown(*connect_timeout)));
    section.show("timeout", is(&shown(*timeout)));
    section.show("output_chars", is(output_chars));
    section
}

fn hidden(texts: &IndexMap<String, String>) -> EffectiveSetting {
    is(&texts.iter().map(|(name, value)| (name.clone(), masked(value).to_owned())).collect::<IndexMap<_, _>>())
}

fn oauth_section(who: &str, oauth: &OAuthConfig) -> SectionDescription {
    let OAuthConfig { client_id, client_secret, client_metadata_url, scopes, grant, issuer, networks } = oauth;
    let mut section = SectionDescription::default();
    section.show("client_id", is(client_id).noted_if(client_id.is_none(), "dynamic client registration"));
    for client in [client_id, client_metadata_url].into_iter().flatten() {
        section.disclose(RiskLevel::Sends, format!("{who} is logged in to as the client {}", quoted(client)));
    }
    section.show("client_secret", is(&client_secret.as_deref().map(masked)));
    // Only the variables in the secret are disclosed. The client and the scopes are too, and a login shows them again.
    for variable in client_secret.iter().flat_map(|secret| variables(secret)) {
        let line = format!("{who} has the environment variable {} sent to its authorization server", quoted(variable));
        section.disclose(RiskLevel::Sends, line);
    }
    section.show("client_metadata_url", is(client_metadata_url));
    section.show("scopes", or_null(scopes, "the scopes that the server names"));
    for scope in scopes {
        section.disclose(RiskLevel::Sends, format!("{who} is logged in to with the scope {}", quoted(scope)));
    }
    section.show("grant", set(grant));
    if *grant == LoginGrant::Client {
        section.disclose(RiskLevel::Sends, format!("{who} is logged in to by this program, without you"));
    }
    section.show("issuer", is(issuer).noted_if(issuer.is_none(), "the issuer that the server names"));
    if let Some(issuer) = issuer {
        section.disclose(RiskLevel::Sends, format!("{who} has the authorization server {}", quoted(issuer)));
    }
    section.show("networks", is(networks));
    for network in networks {
        let line = format!("{who} may have its authorization server in the network {}", quoted(network));
        section.disclose(RiskLevel::Sends, line);
    }
    section
}
