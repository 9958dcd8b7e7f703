//! The vendor's name for a model, and its price.

use super::App;
use crate::{
    config::{ProviderConfig, ProviderKind},
    model::Price,
    net,
    provider::Vendor,
};

impl App {
    /// Returns the price of a model: that of the config, or that of a price list. A model for which nobody sends a bill costs
    /// nothing if neither names it.
    pub(crate) fn price(&self, provider: &ProviderConfig) -> Option<Price> {
        let kind = provider.kind.to_string();
        let listed = || self.prices.price(&kind, &model_name(provider));
        provider.price.or_else(listed).or_else(|| self.is_free(provider).then_some(Price::FREE))
    }

    /// Returns the price of a model that no config names, in the same way.
    pub(super) fn found_price(&self, vendor: Vendor, base_url: &str, model: &str) -> Option<Price> {
        let listed = self.prices.price(vendor.preset().word, model);
        listed.or_else(|| is_own_server(vendor, base_url).then_some(Price::FREE))
    }

    /// Returns `true` if nobody can send a bill for a model: it is a plugin that reaches no server, or a server of a local
    /// kind on this machine or in a private network.
    fn is_free(&self, provider: &ProviderConfig) -> bool {
        let Some(vendor) = provider.kind.vendor() else { return provider.http.is_empty() };
        let base_url = provider.expand("base_url", provider.address(), &*self.environment).ok().flatten();
        base_url.is_some_and(|base_url| is_own_server(vendor, &base_url))
    }
}

fn is_own_server(vendor: Vendor, base_url: &str) -> bool {
    vendor.is_local() && net::endpoint(base_url, &[]).is_ok_and(|url| net::is_private(&url))
}

/// Returns the id of the plugin behind a model.
pub(crate) fn plugin_id(provider: &ProviderConfig) -> &str {
    provider.plugin.as_deref().unwrap_or(&provider.name)
}

/// Returns the vendor's name for a model.
pub(crate) fn model_name(provider: &ProviderConfig) -> String {
    let name = provider.model.as_deref();
    name.unwrap_or(if provider.kind == ProviderKind::Plugin { plugin_id(provider) } else { "" }).to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
        config::Config,
    };

    #[test]
    fn model_for_which_nobody_sends_a_bill_costs_nothing() {
        for (entry, is_known) in [
            ("kind: ollama, model: q", true),
            ("kind: llamacpp, model: q, base_url: 'http://192.168.1.9:8080/v1'", true),
            ("kind: vllm, model: q, base_url: 'http://localhost:8000/v1'", true),
            ("kind: lmstudio, model: q, base_url: '${LOCAL}'", true),
            ("kind: lmstudio, model: q, base_url: '${UNSET}'", false),
            ("kind: vllm, model: q, base_url: 'https://gpu.example/v1'", false),
            ("kind: vllm, model: q, base_url: 'https://1.1.1.1/v1'", false),
            // A proxy may pass requests on to a vendor.
            ("kind: openai, model: q, base_url: 'http://127.0.0.1:4000/v1'", false),
            ("kind: plugin, plugin: offline-model", true),
            ("kind: plugin, plugin: ollama, http: ['http://127.0.0.1:11434']", false),
        ] {
            let config = Config::parse(&format!("providers: [{{name: m, {entry}}}]"), "/".into()).unwrap();
            let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
            let environment = |name: &str| (name == "LOCAL").then(|| "http://127.0.0.1:1234/v1".to_owned());
            let app = App::new(config, &[], None, Arc::new(environment), broker).unwrap();
            let price = app.price(&app.config.providers[0]);
            assert_eq!(price, is_known.then_some(Price::FREE), "{entry}");
        }
    }

    #[test]
    fn price_of_the_config_holds_for_a_local_model_too() {
        let text = "providers: [{name: m, kind: ollama, model: q, price: {input: 1, output: 2}}]";
        let config = Config::parse(text, "/".into()).unwrap();
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let app = App::new(config, &[], None, Arc::new(|_: &str| None), broker).unwrap();
        assert_eq!(app.price(&app.config.providers[0]), app.config.providers[0].price);
        assert!(app.found_price(Vendor::Ollama, "http://127.0.0.1:11434/v1", "q") == Some(Price::FREE));
        assert!(app.found_price(Vendor::Openai, "http://127.0.0.1:11434/v1", "q").is_none());
    }
}
