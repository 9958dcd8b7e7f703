//! The vendor's name for a model, and its price.

use super::App;
use crate::{
    config::{ProviderConfig, ProviderKind},
    model::Price,
};

impl App {
    /// Returns the price of a model: that of the config, or that of a price list.
    pub(crate) fn price(&self, provider: &ProviderConfig) -> Option<Price> {
        let kind = provider.kind.to_string();
        provider.price.or_else(|| self.prices.price(&kind, &model_name(provider)))
    }
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
