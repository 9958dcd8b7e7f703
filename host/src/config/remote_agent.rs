//! Agents of other hosts in a config.

use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use super::{AgentConfig, CredentialConfig, egress::networks, explain::unknown};
use crate::{
    capability::{Grant, HttpGrant},
    error::{ErrorKind, Report},
    limits,
    net::is_loopback,
};

/// An agent of another host, which is reached over A2A.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteAgentConfig {
    /// The URL of its agent card. Nothing but the origin of this URL is reached.
    pub card: String,
    /// The name of the credential that the host adds to its requests, if it is for that origin.
    pub credential: Option<String>,
    /// Networks that the host name of `card` may resolve to besides public ones: `10.0.0.0/8`, or an address.
    #[serde(default)]
    pub networks: Vec<String>,
}

impl RemoteAgentConfig {
    /// Returns the URL of the card; `None` if it is no URL, which a checked config has not.
    pub fn url(&self) -> Option<Url> {
        Url::parse(&self.card).ok()
    }

    /// Returns what its requests need: reading and sending at the origin of the card, and the credential.
    pub fn grant(&self) -> Grant {
        let credentials = self.credential.iter().cloned().collect();
        Grant { http: self.requests().unwrap_or_default(), credentials, ..Grant::default() }
    }

    fn requests(&self) -> Result<HttpGrant, String> {
        let url = Url::parse(&self.card).map_err(|error| format!("card: not a URL: {error}"))?;
        let origin = url.origin().ascii_serialization();
        HttpGrant::entry(&origin, &["GET".to_owned(), "POST".to_owned()], &networks(&self.networks)?)
    }

    /// Checks what serde cannot express, and that the agent has no key that its host alone decides on.
    pub(super) fn check(&self, agent: &AgentConfig, credentials: &[CredentialConfig]) -> Result<(), Report> {
        let at = format!("{}.remote", agent.place());
        let wrong = |what: String, hint: &str| Err(Report::new(ErrorKind::Usage, what).hint(hint));
        let example = "write it as https://agents.example.com/.well-known/agent-card.json";
        let Some(url) = self.url() else { return wrong(format!("{at}.card: not a URL"), example) };
        let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
        if !is_safe || !url.has_host() {
            return wrong(format!("{at}.card: must begin with https://"), example);
        }
        if !url.username().is_empty() || url.password().is_some() || self.card.contains('*') {
            return wrong(format!("{at}.card: must not have a user, a password or `*`"), example);
        }
        if self.networks.len() > limits::HTTP_ENTRY_WORDS {
            let most = limits::HTTP_ENTRY_WORDS;
            return wrong(format!("{at}.networks: must have at most {most} entries"), "name larger networks");
        }
        self.requests().map_err(|why| Report::new(ErrorKind::Usage, format!("{at}.{why}")))?;
        if let Some(name) = &self.credential
            && !credentials.iter().any(|known| known.name == *name)
        {
            let names = credentials.iter().map(|known| known.name.as_str());
            return Err(unknown("credential", name, names).cause(format!("named by {at}.credential")));
        }
        let keys = [
            ("instructions", !agent.instructions.is_empty()),
            ("provider", agent.provider.is_some()),
            ("toolboxes", !agent.toolboxes.is_empty()),
            ("openapi", !agent.openapi.is_empty()),
            ("skills", agent.skills.is_some()),
            ("plugins", !agent.plugins.is_empty()),
            ("agent_tools", !agent.agent_tools.is_empty()),
            ("effects", agent.effects.is_some()),
        ];
        match keys.into_iter().find(|(_, is_set)| *is_set) {
            None => Ok(()),
            Some((key, _)) => wrong(
                format!("{}.{key}: has no effect on an agent with `remote`", agent.place()),
                "remove the key; the other host decides on it",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parse(agent: &str) -> Result<Config, Report> {
        let held = "credentials: [{name: partner, env: KEY, for: [https://agents.example.com]}]";
        Config::parse(&format!("{held}\nagents: [{{name: a, {agent}}}]"), "/project".into())
    }

    #[test]
    fn remote_agent_config_is_parsed() {
        let card = "https://agents.example.com:8443/.well-known/agent-card.json";
        let agent = format!("remote: {{card: '{card}', credential: partner, networks: [10.0.0.0/8]}}");
        let config = parse(&agent).unwrap();
        let remote = config.agents[0].remote.as_ref().unwrap();
        let grant = remote.grant();
        assert_eq!(grant.credentials.names().collect::<Vec<_>>(), ["partner"]);
        for (method, url, address, expected) in [
            ("GET", card, "1.1.1.1", true),
            ("POST", "https://agents.example.com:8443/a2a", "10.1.2.3", true),
            ("DELETE", "https://agents.example.com:8443/a2a", "1.1.1.1", false),
            ("POST", "https://agents.example.com/a2a", "1.1.1.1", false),
            ("POST", "http://agents.example.com:8443/a2a", "1.1.1.1", false),
            ("POST", "https://evil.example.com:8443/a2a", "1.1.1.1", false),
            ("POST", "https://agents.example.com:8443/a2a", "192.168.0.1", false),
        ] {
            let admits = grant.http.admits(method, &Url::parse(url).unwrap(), address.parse().unwrap());
            assert_eq!(admits, expected, "{method} {url} {address}");
        }
        assert!(parse("remote: {card: 'http://127.0.0.1:8322/.well-known/agent-card.json'}").is_ok());
    }

    #[test]
    fn wrong_remote_agent_is_refused_with_its_place() {
        let card = "card: 'https://agents.example.com/card.json'";
        for (agent, says) in [
            ("remote: {card: agents}".to_owned(), "agents.a.remote.card: not a URL"),
            ("remote: {card: 'http://agents.example.com/'}".into(), "agents.a.remote.card: must begin with https://"),
            ("remote: {card: 'https://me:pw@agents.example.com'}".into(), "agents.a.remote.card: must not have a user"),
            ("remote: {card: 'https://*.example.com'}".into(), "agents.a.remote.card: must not have a user"),
            (format!("remote: {{{card}, networks: [10.0]}}"), "agents.a.remote.networks: `10.0` is not a network"),
            (format!("remote: {{{card}, networks: [{}]}}", vec!["10.0.0.0/8"; 17].join(", ")), "at most 16 entries"),
            (format!("remote: {{{card}, credential: other}}"), "there is no credential `other`"),
            (format!("remote: {{{card}}}, instructions: Be brief."), "agents.a.instructions: has no effect"),
            (format!("remote: {{{card}}}, toolboxes: [tasks]"), "agents.a.toolboxes: has no effect"),
        ] {
            let report = parse(&agent).unwrap_err().to_string();
            assert!(report.contains(says) && !report.contains("pw"), "{agent}: {report}");
        }
    }
}
