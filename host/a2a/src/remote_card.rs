use async_trait::async_trait;
use serde_json::{Map, Value};
use url::Url;

use crate::{
    is_spoken,
    wire::{AgentCard, AgentInterface, ProtocolBinding},
};
use shelly_core::{
    digest::Sha256Digest,
    error::{Fault, cut, legible},
    event::RunCx,
    limits,
};
use shelly_net::origin;

/// The card of an agent of another host, as far as it is used.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteCard {
    /// The digest of the whole card, in hex. It does not depend on the order of keys.
    pub digest: String,
    /// The address of the agent, at the origin of the card.
    pub(crate) endpoint: Url,
    /// The value that each request there must have as its `tenant`.
    pub(crate) tenant: String,
    /// `true` if the agent streams updates.
    pub(crate) is_streaming: bool,
    card: AgentCard,
}

/// Decides whether an agent of another host may be given tasks as its card is now.
#[async_trait]
pub trait CardApproval: Send + Sync {
    /// Returns once the card is approved.
    ///
    /// # Errors
    ///
    /// [`Fault::Denied`] if nobody approves it.
    async fn approve(&self, cx: &RunCx, card: &RemoteCard) -> Result<(), Fault>;
}

impl RemoteCard {
    /// Parses the card that was read at this address.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if it is no card, or this host cannot reach the agent: its address must speak JSON-RPC in this
    /// version, and be at the origin of the card.
    pub fn parse(bytes: &[u8], place: &Url) -> Result<Self, Fault> {
        let shown = origin(place);
        let wrong = |why: String| Fault::invalid(format!("the agent card of {shown} cannot be used: {why}"));
        let value: Value = serde_json::from_slice(bytes).map_err(|error| wrong(format!("it is not JSON: {error}")))?;
        let digest = Sha256Digest::of(in_order(value.clone()).to_string()).hex();
        let card: AgentCard = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
        let is_usable = |interface: &&AgentInterface| {
            interface.protocol_binding == ProtocolBinding::JsonRpc.name() && is_spoken(&interface.protocol_version)
        };
        let interface = card
            .supported_interfaces
            .iter()
            .take(limits::A2A_INTERFACES)
            .find(is_usable)
            .ok_or_else(|| wrong("it has no address that speaks JSONRPC in version 1.0".into()))?;
        let endpoint = Url::parse(&interface.url).map_err(|_| wrong("the address of the agent is no URL".into()))?;
        if endpoint.origin() != place.origin() || !endpoint.username().is_empty() || endpoint.password().is_some() {
            return Err(wrong(format!(
                "the agent is at {}, and only the origin of its card may be reached",
                cut(&legible(&origin(&endpoint)), limits::A2A_SHOWN_CHARS)
            )));
        }
        let (tenant, is_streaming) = (interface.tenant.clone(), card.capabilities.streaming);
        Ok(Self { digest, endpoint, tenant, is_streaming, card })
    }

    /// Returns the card in words, for a person who decides on it.
    pub fn summary(&self) -> String {
        let shown = |text: &str| cut(&legible(text), limits::A2A_SHOWN_CHARS);
        let mut summary = format!("{}: {}\n{}", shown(&self.card.name), shown(&self.card.description), self.endpoint);
        for skill in self.card.skills.iter().take(limits::NAMES_SHOWN) {
            summary.push_str(&format!("\n- {}: {}", shown(&skill.name), shown(&skill.description)));
        }
        summary
    }
}

/// Returns a value with the keys of all objects sorted.
fn in_order(value: Value) -> Value {
    match value {
        Value::Array(list) => list.into_iter().map(in_order).collect(),
        Value::Object(map) => {
            let mut pairs: Vec<_> = map.into_iter().map(|(key, value)| (key, in_order(value))).collect();
            pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(pairs.into_iter().collect::<Map<_, _>>())
        }
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn card(interfaces: Value) -> Value {
        json!({"name": "researcher", "description": "Reads.", "supportedInterfaces": interfaces,
            "capabilities": {"streaming": true}, "skills": [{"id": "r", "name": "Reading", "description": "Reads."}]})
    }

    fn parsed(card: &Value) -> Result<RemoteCard, Fault> {
        let place = "https://agents.example.com/.well-known/agent-card.json".parse().unwrap();
        RemoteCard::parse(card.to_string().as_bytes(), &place)
    }

    fn interface(url: &str, binding: &str, version: &str) -> Value {
        json!({"url": url, "protocolBinding": binding, "protocolVersion": version})
    }

    #[test]
    fn address_is_the_first_one_that_can_be_used() {
        let url = "https://agents.example.com/a";
        let read = parsed(&card(json!([
            interface("https://agents.example.com/g", "GRPC", "1.0"),
            interface("https://agents.example.com/o", "JSONRPC", "0.3"),
            interface(url, "JSONRPC", "1.0"),
        ])))
        .unwrap();
        assert_eq!((read.endpoint.as_str(), read.is_streaming, &*read.tenant), (url, true, ""));
        assert!(read.summary().starts_with("researcher: Reads.\nhttps://agents.example.com/a\n- Reading"));
        let many = vec![interface(url, "GRPC", "1.0"); limits::A2A_INTERFACES];
        let many = [many, vec![interface(url, "JSONRPC", "1.0")]].concat();
        for (wrong, why) in [
            (json!([]), "no address"),
            (json!(many), "no address"),
            (json!([interface(url, "JSONRPC", "0.3")]), "no address"),
            (json!([interface("agents", "JSONRPC", "1.0")]), "no URL"),
            (json!([interface("https://evil.example.com/a", "JSONRPC", "1.0")]), "only the origin"),
            (json!([interface("http://agents.example.com/a", "JSONRPC", "1.0")]), "only the origin"),
            (json!([interface("https://agents.example.com:444/a", "JSONRPC", "1.0")]), "only the origin"),
            (json!([interface("https://me:pw@agents.example.com/a", "JSONRPC", "1.0")]), "only the origin"),
        ] {
            let fault = parsed(&card(wrong.clone())).unwrap_err().to_string();
            assert!(fault.contains(why) && !fault.contains("pw"), "{wrong}: {fault}");
        }
    }

    #[test]
    fn digest_changes_with_the_card_and_not_with_the_order() {
        let interfaces = json!([interface("https://agents.example.com/a", "JSONRPC", "1.0")]);
        let first = parsed(&card(interfaces.clone())).unwrap();
        let mut other = card(interfaces);
        other["skills"][0]["description"] = "Deletes.".into();
        assert_ne!(parsed(&other).unwrap().digest, first.digest);
        assert_eq!(in_order(json!({"b": 1, "a": [{"d": 1, "c": 2}]})).to_string(), r#"{"a":[{"c":2,"d":1}],"b":1}"#);
        let long = "x".repeat(limits::A2A_SHOWN_CHARS + 1);
        other["name"] = long.into();
        assert!(parsed(&other).unwrap().summary().contains("x…: "));
    }
}
