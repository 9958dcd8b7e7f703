//! APIs that OpenAPI documents describe: their documents and servers, and the operations that agents use.

use std::collections::BTreeSet;

use super::{section::SectionDescription, shared_settings::or_null, wording::shown_address};
use crate::{
    capability::READING_METHODS,
    config::{Config, OpenApiConfig, OpenApiUse, effective_setting::is, mask::masked_url},
    files, limits,
    trust::{RiskLevel, quoted, quoted_path},
};

pub(super) fn api_section(api: &OpenApiConfig, config: &Config) -> SectionDescription {
    let OpenApiConfig { name, document, sha256, base, networks, credential, listing } = api;
    let mut section = SectionDescription::default();
    let who = format!("the API {}", quoted(name));
    section.show("name", is(name));
    let sent_to = shown_servers(Some(api));
    let path = config.root.join(document);
    let described_by = match (api.is_at_url(), sha256) {
        (false, _) => {
            section.show("document", is(&files::without_dots(&path)));
            format!("the file {}", quoted_path(&files::resolved(&path)))
        }
        (true, None) => format!("the document at {}", shown_address(document)),
        (true, Some(sha256)) => format!("the document at {} with sha256:{sha256}", shown_address(document)),
    };
    if api.is_at_url() {
        section.show("document", is(&masked_url(document)));
    }
    section.disclose(
        RiskLevel::Sends,
        format!("{who} is described by {described_by}; the arguments of its tools are sent to {sent_to}"),
    );
    section.show("sha256", is(sha256).noted_if(sha256.is_none(), "not fixed"));
    let known = listing.found().map(|listing| listing.base.to_string());
    let shown = base.clone().or(known);
    section.show(
        "base",
        is(&shown.as_deref().map(masked_url)).noted_if(base.is_none(), "the first server of the document"),
    );
    section.show("networks", or_null(networks, "public addresses, or the named address"));
    for network in networks {
        let line = format!("{who} may have its server in the network {}", quoted(network));
        section.disclose(RiskLevel::Sends, line);
    }
    section.show("credential", is(credential).noted_if(credential.is_none(), "none"));
    if let Some(credential) = credential {
        section.disclose(RiskLevel::Sends, format!("{who} gets the credential {}", quoted(credential)));
    }
    // Operations that no agent can have, each with the reason.
    let left_out = listing.found().map(|listing| &listing.left_out[..]).unwrap_or_default();
    let left_out = left_out.iter().take(limits::NAMES_SHOWN).map(|one| format!("{}: {}", one.name, one.why));
    section.show("left_out", is(&left_out.collect::<Vec<_>>()));
    section
}

/// Describes the operations of an API that an agent uses.
pub(super) fn api_use_section(agent: &str, uses: &OpenApiUse, config: &Config) -> SectionDescription {
    let OpenApiUse { name, operations, confirm } = uses;
    let mut section = SectionDescription::default();
    let who = format!("the agent {}: the API {}", quoted(agent), quoted(name));
    section.show("name", is(name));
    let api = config.api(name).ok();
    let selected = api.and_then(|api| uses.selected(api.listing.found()?).ok());
    let names = selected.as_ref().map(|selected| {
        let names = selected.operations.iter().take(limits::NAMES_SHOWN).map(|one| one.name.clone());
        names.collect::<Vec<_>>()
    });
    match names {
        Some(names) => section.show("operations", is(&names)),
        None => section.show("operations", is(operations).noted_if(operations.is_none(), "all approved operations")),
    }
    // Which operations of one server these are need not be consented to: the methods say what they can do. A document at a URL
    // is not read before the consent.
    let methods = selected.filter(|_| api.is_some_and(|api| !api.is_at_url())).map(|selected| {
        let methods: BTreeSet<_> = selected.operations.iter().map(|one| one.method.clone()).collect();
        methods.into_iter().collect::<Vec<_>>()
    });
    let sent_to = shown_servers(api);
    match methods {
        Some(methods) if methods.is_empty() => {}
        Some(methods) => {
            let only_reads = methods.iter().all(|method| READING_METHODS.contains(&method.as_str()));
            let risk = if only_reads { RiskLevel::Reads } else { RiskLevel::Sends };
            section.disclose(risk, format!("{who} may send {} requests to {sent_to}", methods.join(", ")));
        }
        None => {
            section.disclose(RiskLevel::Sends, format!("{who} may send requests of any method to {sent_to}"));
        }
    }
    section.show("confirm", is(confirm).noted_if(confirm.is_none(), "before calls other than GET and HEAD"));
    match confirm {
        Some(true) => section.disclose(RiskLevel::Little, format!("{who} is used")),
        Some(false) => {
            section.disclose(RiskLevel::Changes, format!("{who} is used, without asking you before each call"));
        }
        None => {
            let line = format!("{who} is used, asking you only before calls other than GET and HEAD");
            section.disclose(RiskLevel::Little, line);
        }
    }
    section
}

/// Shows the servers of an API, as far as they are known.
fn shown_servers(api: Option<&OpenApiConfig>) -> String {
    let servers = api.map(OpenApiConfig::known_servers).unwrap_or_default();
    match &servers[..] {
        [] => "the server that the document names".to_owned(),
        servers => servers.iter().map(|server| shown_address(server)).collect::<Vec<_>>().join(" and "),
    }
}
