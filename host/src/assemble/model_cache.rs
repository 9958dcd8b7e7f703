use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{config::ProviderKind, kv::KvStores, model::Completer};

/// The models that were built; agents that use the same one share it.
pub(crate) struct ModelCache {
    made: Mutex<HashMap<String, ResolvedModel>>,
    /// The key-value stores of their plugins.
    pub stores: KvStores,
}

impl ModelCache {
    pub fn new(stores: &KvStores) -> Self {
        Self { made: Mutex::default(), stores: stores.clone() }
    }

    /// Returns the models that were built, by their names.
    pub fn made(&self) -> MutexGuard<'_, HashMap<String, ResolvedModel>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A model and its source, for hints: `providers.local in the config`, `OPENAI_API_KEY is set`.
#[derive(Clone)]
pub(crate) struct ResolvedModel {
    pub completer: Arc<dyn Completer>,
    pub source: String,
    /// The vendor, or `Plugin`.
    pub kind: ProviderKind,
}

impl ResolvedModel {
    /// Returns `true` if the model is a plugin.
    pub fn is_plugin(&self) -> bool {
        self.kind == ProviderKind::Plugin
    }
}
