//! The configs whose runs a worker accepts, each with what it needs.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    bundle_folder::{BundleError, BundleFolder},
    config_bundle::{BundledPlugin, ConfigBundle},
};
use crate::{
    app::App,
    approval::ApprovalInbox,
    cluster::{ObjectStorage, RunSpec},
    config::Config,
    digest::Sha256Digest,
    error::Report,
    limits,
    serve::hosted_runs::RunHost,
    trust::TrustStore,
};

/// The runs that a worker accepts, by their config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptPolicy {
    /// Those with the config and the plugins of the worker.
    Own,
    /// Those whose config names nothing that the person of this host has not consented to.
    Trusted,
    /// All: whoever can submit runs is trusted.
    Any,
}

impl AcceptPolicy {
    /// Returns the word for the policy.
    pub fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Trusted => "trusted",
            Self::Any => "any",
        }
    }
}

/// The parts of this host's environment that configs of others are combined with.
pub trait BundleEnvironment: Send + Sync {
    /// Parses a config for the project in this folder, over what the person of this host has for all projects. The
    /// agents that are installed for it are those of `agents`, a folder with a lock file.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the position and the mend.
    fn config(&self, text: &str, root: PathBuf, agents: &Path) -> Result<Config, Report>;

    /// Builds an app for a config, and the inbox of its questions; `None` if a policy answers them. `plugins` are further
    /// plugin directories that the person has named.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a plugin directory or the project's folder cannot be used.
    fn app(&self, config: Config, plugins: &[PathBuf]) -> Result<(App, Option<ApprovalInbox>), Report>;

    /// Returns the store of what the person of this host has consented to.
    fn trust(&self) -> TrustStore;
}

/// The hosts of runs, one for each config.
pub(super) struct BundleHosts {
    own: RunHost,
    own_bundle: Sha256Digest,
    accept: AcceptPolicy,
    environment: Arc<dyn BundleEnvironment>,
    objects: ObjectStorage,
    folder: BundleFolder,
    loaded: Mutex<LoadedBundles<RunHost>>,
    /// Each lock is held while its config is loaded: runs of one config that come together load it once. Runs of another
    /// one do not wait for it, since whoever has submitted it decides how long that takes.
    loading: Mutex<BTreeMap<Sha256Digest, Arc<tokio::sync::Mutex<()>>>>,
}

/// The configs of others whose runs are accepted, each with the host of its runs, the one that was used last at the end. One
/// that is declined is looked at each time: the person may have consented since then.
struct LoadedBundles<H>(VecDeque<(Sha256Digest, H)>);

impl<H> Default for LoadedBundles<H> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<H: Clone> LoadedBundles<H> {
    /// Returns the host of a config, which is the one that was used last from then on; `None` if it is not loaded.
    fn used(&mut self, digest: &Sha256Digest) -> Option<H> {
        let at = self.0.iter().position(|(loaded, _)| loaded == digest)?;
        let used = self.0.remove(at)?;
        let host = used.1.clone();
        self.0.push_back(used);
        Some(host)
    }

    /// Adds a config, and unloads the one that was not used for longest if there are too many. The runs of a host that is
    /// unloaded hold it until they have ended.
    fn add(&mut self, digest: Sha256Digest, host: H) {
        self.0.push_back((digest, host));
        while self.0.len() > limits::CLUSTER_BUNDLES_LOADED {
            self.0.pop_front();
        }
    }
}

/// The reason why a run is not accepted.
pub(super) enum NotAccepted {
    /// This host does not do such runs, for this reason; another one may.
    Declined(String),
    /// The config could not be got; another attempt may do better.
    Failed(Report),
}

impl From<BundleError> for NotAccepted {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Unusable(why) => Self::Declined(why),
            BundleError::Failed(report) => Self::Failed(report),
        }
    }
}

impl BundleHosts {
    /// Creates the hosts of a worker whose own config is that of `own`. The bundles of others are unpacked in `folder`.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the worker's own config cannot be packed.
    pub fn new(
        own: RunHost,
        accept: AcceptPolicy,
        environment: Arc<dyn BundleEnvironment>,
        objects: ObjectStorage,
        folder: PathBuf,
    ) -> Result<Self, Report> {
        let own_bundle = ConfigBundle::pack(own.app())?.digest();
        let (loaded, loading) = (Mutex::default(), Mutex::default());
        let folder = BundleFolder::new(folder);
        Ok(Self { own, own_bundle, accept, environment, objects, folder, loaded, loading })
    }

    /// Returns the host of the worker's own config.
    pub fn own(&self) -> &RunHost {
        &self.own
    }

    /// Returns the objects that runs bring with them.
    pub fn objects(&self) -> &ObjectStorage {
        &self.objects
    }

    /// Returns the host that does a run.
    ///
    /// # Errors
    ///
    /// [`NotAccepted`].
    pub async fn host_of(&self, spec: &RunSpec) -> Result<RunHost, NotAccepted> {
        let Some(digest) = spec.bundle.filter(|digest| *digest != self.own_bundle) else { return Ok(self.own.clone()) };
        if self.accept == AcceptPolicy::Own {
            return Err(NotAccepted::Declined(format!(
                "its config or a plugin is not that of the worker; use the same config and plugins on both hosts, or start \
                 the worker with --accept trusted (its bundle is {digest}, that of the worker {})",
                self.own_bundle
            )));
        }
        if let Some(host) = self.loaded().used(&digest) {
            return Ok(host);
        }
        let lock = self.loading_lock(digest);
        let _loading = lock.lock().await;
        // Another run may have loaded it meanwhile.
        if let Some(host) = self.loaded().used(&digest) {
            return Ok(host);
        }
        let host = self.load(&digest).await?;
        self.loaded().add(digest, host.clone());
        Ok(host)
    }

    fn loaded(&self) -> MutexGuard<'_, LoadedBundles<RunHost>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lock of a config that is loaded.
    fn loading_lock(&self, digest: Sha256Digest) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody has those of configs that are not being loaded.
        all.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(all.entry(digest).or_default())
    }

    /// Gets a bundle, unpacks it, and builds the host of its runs, if they are accepted.
    async fn load(&self, digest: &Sha256Digest) -> Result<RunHost, NotAccepted> {
        let bundle = self.folder.list(digest, &self.objects).await?;
        let own = self.own.app();
        let agents = self.folder.unpack_agents(digest, &bundle, &self.objects).await?;
        let unusable =
            |report: Report| NotAccepted::Declined(format!("its config cannot be used here: {}", report.with_hint()));
        let config = self.environment.config(&bundle.config, own.config.root.clone(), &agents);
        let mut config = config.map_err(unusable)?;
        // The run is recorded where its entry is.
        config.cluster.clone_from(&own.config.cluster);
        config.user.has_cluster = own.config.user.has_cluster;
        let mut named = Vec::new();
        if bundle.plugins.is_empty() {
            config.plugin_dirs.clear();
        } else if bundle.plugins.iter().all(|plugin| self.has(plugin)) {
            // The plugins of this host are the same, and a person may have consented to them where they are.
            config.plugin_dirs.clone_from(&own.config.plugin_dirs);
            named.clone_from(&own.named_dirs);
        } else {
            config.plugin_dirs = vec![self.folder.unpack(digest, &bundle, &self.objects).await?];
        }
        let (app, inbox) = self.environment.app(config, &named).map_err(unusable)?;
        let app = app.with_sandbox_of(own).with_cluster_of(own);
        self.admit(&app)?;
        Ok(RunHost::new(app, inbox, self.own.options().clone()))
    }

    /// Returns `true` if this host has the same plugin under this id.
    fn has(&self, plugin: &BundledPlugin) -> bool {
        let own = self.own.app().catalog.entry(&plugin.id).and_then(|own| own.sealed());
        own.is_some_and(|own| plugin.component() == Some(own.digest))
    }

    /// Accepts the runs of an app, unless the policy is to accept what the person has consented to and its config names
    /// more. What the person has consented to is not asked about in its runs.
    fn admit(&self, app: &App) -> Result<(), NotAccepted> {
        if self.accept == AcceptPolicy::Any {
            return Ok(());
        }
        let declined = |report: Report| NotAccepted::Declined(report.with_hint());
        let standing = app.standing(&self.environment.trust(), false).map_err(declined)?;
        if !standing.is_trusted() {
            let new: Vec<_> = standing.new_facts().lines().take(limits::CLUSTER_RUN_WARNINGS).collect();
            return Err(NotAccepted::Declined(format!(
                "its config names what the operator of the worker has not trusted: {}",
                new.join("; ")
            )));
        }
        app.broker.trust(standing.trusted().map_err(declined)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_that_was_not_used_for_longest_is_unloaded() {
        let digests: Vec<_> = (0..=limits::CLUSTER_BUNDLES_LOADED).map(|n| Sha256Digest::of(n.to_string())).collect();
        let (last, first) = digests.split_last().unwrap();
        let mut loaded = LoadedBundles::default();
        for digest in first {
            loaded.add(*digest, "host");
        }
        assert_eq!(loaded.used(&digests[0]), Some("host"));
        assert_eq!(loaded.0.len(), limits::CLUSTER_BUNDLES_LOADED, "none is there twice");
        loaded.add(*last, "new");
        assert_eq!(loaded.0.len(), limits::CLUSTER_BUNDLES_LOADED);
        assert_eq!((loaded.used(&digests[0]), loaded.used(last)), (Some("host"), Some("new")));
        assert_eq!(loaded.used(&digests[1]), None, "it was not used for longest");
    }
}
