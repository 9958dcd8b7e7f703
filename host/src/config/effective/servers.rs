//! The effective settings of MCP servers.

use indexmap::IndexMap;

use super::{
    super::{
        Config, McpServerConfig, OAuthConfig,
        effective_setting::{EffectiveSetting, is, map, set, shown},
        mask::{masked, masked_url},
    },
    or_null,
};

pub(super) fn server(server: &McpServerConfig, config: &Config) -> EffectiveSetting {
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
    let hidden = |texts: &IndexMap<String, String>| {
        is(&texts.iter().map(|(name, value)| (name.clone(), masked(value).to_owned())).collect::<IndexMap<_, _>>())
    };
    let mut keys = vec![("name", is(name))];
    match url {
        None => keys.extend([
            ("command", is(command)),
            ("args", is(args)),
            ("env", hidden(env).noted("beside PATH and HOME")),
            ("cwd", cwd.as_ref().map_or_else(|| is(&config.root).noted("the root"), |cwd| is(&config.root.join(cwd)))),
        ]),
        Some(url) => keys.extend([
            ("url", is(&masked_url(url))),
            ("headers", hidden(headers)),
            ("oauth", oauth.as_ref().map_or_else(|| is(&()).noted("as the server says"), oauth_setting)),
        ]),
    }
    let roots = roots.as_ref().map(|roots| roots.iter().map(|root| config.root.join(root)).collect::<Vec<_>>());
    keys.extend([
        ("protocol", set(protocol)),
        ("roots", is(&roots).noted_if(roots.is_none(), "it is told of no folder")),
        ("connect_timeout", is(&shown(*connect_timeout))),
        ("timeout", is(&shown(*timeout))),
        ("output_chars", is(output_chars)),
    ]);
    map(keys)
}

fn oauth_setting(oauth: &OAuthConfig) -> EffectiveSetting {
    let OAuthConfig { client_id, client_secret, client_metadata_url, scopes, grant, issuer, networks } = oauth;
    map([
        ("client_id", is(client_id).noted_if(client_id.is_none(), "it has itself registered")),
        ("client_secret", is(&client_secret.as_deref().map(masked))),
        ("client_metadata_url", is(client_metadata_url)),
        ("scopes", or_null(scopes, "as the server says")),
        ("grant", set(grant)),
        ("issuer", is(issuer).noted_if(issuer.is_none(), "whichever the server names")),
        ("networks", is(networks)),
    ])
}
