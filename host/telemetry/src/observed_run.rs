//! A run as the host knows it: its session, its models, the credentials to hide.

use std::{collections::HashMap, sync::Arc};

use shelly_core::capability::{Price, Usd};

use crate::{conventions, message_content::Redactor};

/// The facts about a run that its events do not have.
#[derive(Clone)]
pub struct ObservedRun {
    /// The session in which the run is recorded, if it is.
    pub conversation: Option<String>,
    /// The models that agents may use.
    pub models: Arc<ModelDirectory>,
    /// Removes credentials from texts before they are exported.
    pub redact: Redactor,
}

/// Vendors and prices of models, by the vendor's name for the model.
#[derive(Debug, Default)]
pub struct ModelDirectory(HashMap<String, ModelFacts>);

/// The vendor and the price of a model.
#[derive(Debug, Clone)]
pub struct ModelFacts {
    /// The name of the vendor, as the semantic conventions spell it.
    pub provider: String,
    /// The price, if it is known.
    pub price: Option<Price>,
}

impl ModelDirectory {
    /// Returns the name of a model's vendor.
    pub(crate) fn provider(&self, model: &str) -> &str {
        self.0.get(model).map_or(conventions::OTHER, |listed| &listed.provider)
    }

    /// Returns the price of a model, if it is known.
    pub(crate) fn price(&self, model: &str) -> Option<Price> {
        self.0.get(model)?.price
    }
}

impl FromIterator<(String, ModelFacts)> for ModelDirectory {
    /// Lists models; of two with one name, the first counts.
    fn from_iter<I: IntoIterator<Item = (String, ModelFacts)>>(models: I) -> Self {
        let mut listed = HashMap::new();
        for (name, model) in models {
            listed.entry(name).or_insert(model);
        }
        Self(listed)
    }
}

/// Returns an amount in dollars.
pub(crate) fn dollars(amount: Usd) -> f64 {
    const PICO_IN_A_DOLLAR: f64 = 1e12;
    amount.pico() as f64 / PICO_IN_A_DOLLAR
}
