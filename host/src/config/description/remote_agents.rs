//! Agents of other hosts.

use super::{section::SectionDescription, shared_settings::or_null, wording::shown_address};
use crate::{
    config::{
        RemoteAgentConfig,
        effective_setting::{EffectiveSetting, is, map},
        mask::masked_url,
    },
    trust::{RiskLevel, quoted},
};

pub(super) fn remote_setting(remote: Option<&RemoteAgentConfig>) -> EffectiveSetting {
    let Some(RemoteAgentConfig { card, credential, networks }) = remote else {
        return is(&()).noted("none: the agent runs here");
    };
    map([
        ("card", is(&masked_url(card))),
        ("credential", is(credential).noted_if(credential.is_none(), "none")),
        ("networks", or_null(networks, "public addresses, or the named address")),
    ])
}

/// Discloses where the tasks of an agent are sent, and with which credential.
pub(super) fn disclose_remote(section: &mut SectionDescription, agent: &str, remote: &RemoteAgentConfig) {
    let RemoteAgentConfig { card, credential, networks } = remote;
    let who = format!("the agent {}", quoted(agent));
    let line = format!("{who} is one of another host: its tasks are sent to the origin of {}", shown_address(card));
    section.disclose(RiskLevel::Sends, line);
    for network in networks {
        let line = format!("{who} may have its host in the network {}", quoted(network));
        section.disclose(RiskLevel::Sends, line);
    }
    if let Some(credential) = credential {
        section.disclose(RiskLevel::Sends, format!("{who} gets the credential {}", quoted(credential)));
    }
}
