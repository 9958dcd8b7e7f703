use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use shelly_core::{
    capability::{Grant, KvScope},
    event::RunCx,
    kv::{KvStore, KvStoreOwner, KvStores},
};

/// The store that a plugin was granted by one user: an agent, or a model.
pub struct KvBinding {
    scope: KvScope,
    /// The user's place in the config, which is unique.
    user: String,
    plugin: String,
    stores: KvStores,
}

/// The stores of one run, by user and plugin.
#[derive(Default)]
struct RunKvStores(Mutex<HashMap<(String, String), KvStore>>);

impl KvBinding {
    /// Creates the binding; `None` if no store is granted.
    ///
    /// `place` is the place of the plugin in the config: `agents.NAME.plugins.ID` or `providers.NAME`.
    pub fn of(granted: &Grant, place: &str, stores: &KvStores, plugin: &str) -> Option<Self> {
        let scope = *granted.kv.first()?;
        let user = place.strip_suffix(&format!(".plugins.{plugin}")).unwrap_or(place);
        Some(Self { scope, user: user.into(), plugin: plugin.into(), stores: stores.clone() })
    }

    /// Returns the store for a call of this run.
    pub fn store(&self, cx: &RunCx) -> KvStore {
        let (user, plugin) = (self.user.clone(), self.plugin.clone());
        match self.scope {
            KvScope::Run => {
                let stores = cx.extensions.get::<RunKvStores>();
                let mut stores = stores.0.lock().unwrap_or_else(PoisonError::into_inner);
                stores.entry((user, plugin)).or_insert_with(|| self.stores.in_memory()).clone()
            }
            KvScope::Session => self.stores.get(KvStoreOwner::Session { user, plugin }),
            KvScope::Agent => self.stores.get(KvStoreOwner::User { user, plugin }),
            KvScope::Plugin => self.stores.get(KvStoreOwner::Plugin { plugin }),
        }
    }
}
