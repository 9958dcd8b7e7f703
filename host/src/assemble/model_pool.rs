use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::OnceCell;

use super::{ResolvedModel, StartupNotices};
use crate::model::ProviderRateLimiter;

/// Models that all runs of an app share: those behind HTTP APIs with their connections, their rate limits and the batches that
/// collect their requests, and the rate limiters of the others. A model that is a plugin is built for each run, because it
/// works with the key-value stores of that run.
#[derive(Default)]
pub(super) struct ModelPool {
    models: Mutex<HashMap<String, Arc<OnceCell<PooledModel>>>>,
    limiters: Mutex<HashMap<String, Arc<ProviderRateLimiter>>>,
}

/// A model, and the notices that each run with it shows.
pub(super) struct PooledModel {
    pub model: ResolvedModel,
    pub notices: StartupNotices,
}

impl ModelPool {
    /// Returns the slot of the model of this name. Runs that want it at the same time build it once; a failure is not kept.
    pub fn slot(&self, name: &str) -> Arc<OnceCell<PooledModel>> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(models.entry(name.to_owned()).or_default())
    }

    /// Returns the rate limiter of the provider of this name, which `new` makes for the first model.
    pub fn limiter(&self, provider: &str, new: impl FnOnce() -> ProviderRateLimiter) -> Arc<ProviderRateLimiter> {
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(limiters.entry(provider.to_owned()).or_insert_with(|| Arc::new(new())))
    }
}

impl PooledModel {
    /// Returns the model, and adds its notices to those of a run.
    pub fn with_notices(&self, notices: &mut StartupNotices) -> ResolvedModel {
        notices.notes.extend(self.notices.notes.iter().cloned());
        notices.warnings.extend(self.notices.warnings.iter().cloned());
        self.model.clone()
    }
}
