//! HTTP permissions as they are written for other hosts: exactly, unlike the lines that people are shown.

use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize};

use super::{AddressScope, HostPattern, HttpGrant, HttpRule};

/// A rule in its written form.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct HttpRuleRecord {
    host: HostPatternRecord,
    is_encrypted: bool,
    port: u16,
    path: String,
    /// The method; `null`: every method. A key that is missing is a mistake.
    #[serde(deserialize_with = "present")]
    method: Option<String>,
    /// `public`, `any`, or a network.
    reach: String,
}

/// A pattern of hosts in its written form.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HostPatternRecord {
    Any,
    Below(String),
    Name(String),
    Address(IpAddr),
}

const PUBLIC: &str = "public";
const ANY: &str = "any";

/// Deserializes a value that may be `null` but not be missing.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(from)
}

impl HttpGrant {
    /// Returns the rules in their written form; `None` for every request.
    pub(in super::super) fn to_records(&self) -> Option<Vec<HttpRuleRecord>> {
        Some(self.0.as_ref()?.iter().map(HttpRuleRecord::of).collect())
    }

    /// Returns the grant with these rules; `None` for every request.
    ///
    /// # Errors
    ///
    /// The reason why a rule is none.
    pub(in super::super) fn of_records(rules: Option<Vec<HttpRuleRecord>>) -> Result<Self, String> {
        let rules = rules.map(|rules| rules.into_iter().map(HttpRuleRecord::into_rule).collect());
        rules.transpose().map(Self)
    }
}

impl HttpRuleRecord {
    fn of(rule: &HttpRule) -> Self {
        let HttpRule { host, is_encrypted, port, path, method, reach } = rule.clone();
        let host = match host {
            HostPattern::Any => HostPatternRecord::Any,
            HostPattern::Below(name) => HostPatternRecord::Below(name),
            HostPattern::Name(name) => HostPatternRecord::Name(name),
            HostPattern::Address(address) => HostPatternRecord::Address(address),
        };
        let reach = match reach {
            AddressScope::Public => PUBLIC.to_owned(),
            AddressScope::Any => ANY.to_owned(),
            AddressScope::Network(network) => network.to_string(),
        };
        Self { host, is_encrypted, port, path, method, reach }
    }

    fn into_rule(self) -> Result<HttpRule, String> {
        let Self { host, is_encrypted, port, path, method, reach } = self;
        let host = match host {
            HostPatternRecord::Any => HostPattern::Any,
            HostPatternRecord::Below(name) => HostPattern::Below(name),
            HostPatternRecord::Name(name) => HostPattern::Name(name),
            HostPatternRecord::Address(address) => HostPattern::Address(address),
        };
        let reach = match reach.as_str() {
            PUBLIC => AddressScope::Public,
            ANY => AddressScope::Any,
            network => AddressScope::Network(
                network.parse().map_err(|_| "an HTTP rule has a network that is none".to_owned())?,
            ),
        };
        match path.starts_with('/') {
            true => Ok(HttpRule { host, is_encrypted, port, path, method, reach }),
            false => Err("an HTTP rule has a path that does not begin with /".into()),
        }
    }
}
