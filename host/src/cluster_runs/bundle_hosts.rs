//! The configs whose runs a worker accepts, each with what it needs.

use std::{
    collections::VecDeque,
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
    loaded: Mutex<LoadedBundles>,
    /// Held while a config is loaded: runs of one config that come together load it once.
    loading: tokio::sync::Mutex<()>,
}

/// The configs of others that were loaded, the one that was used last at the end.
#[derive(Default)]
struct LoadedBundles(VecDeque<LoadedBundle>);

struct LoadedBundle {
    digest: Sha256Digest,
    /// The host of its runs; `Err`: the reason why none is accepted.
    decision: Result<RunHost, String>,
}

impl LoadedBundles {
    /// Returns the decision about a config; `None` if it is not loaded.
    fn decision(&self, digest: &Sha256Digest) -> Option<Result<RunHost, String>> {
        self.0.iter().find(|loaded| loaded.digest == *digest).map(|loaded| loaded.decision.clone())
    }

    /// Notes that a config is used, and unloads the one that was not used for longest if there are too many. The runs of a
    /// host that is unloaded hold it until they have ended.
    fn note(&mut self, digest: Sha256Digest, decision: Result<RunHost, String>) {
        self.0.retain(|loaded| loaded.digest != digest);
        self.0.push_back(LoadedBundle { digest, decision });
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
        let (loaded, loading) = (Mutex::default(), tokio::sync::Mutex::default());
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
                "its config bundle {digest} is not that of the worker, {}; use the same config and plugins on both hosts, \
                 or start the worker with --accept trusted",
                self.own_bundle
            )));
        }
        let _loading = self.loading.lock().await;
        let known = self.loaded().decision(&digest);
        let decision = match known {
            // The person may have consented since then.
            Some(Err(_)) | None => self.load(&digest).await?,
            Some(decision) => decision,
        };
        self.loaded().note(digest, decision.clone());
        decision.map_err(NotAccepted::Declined)
    }

    fn loaded(&self) -> MutexGuard<'_, LoadedBundles> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets a bundle, unpacks it, and decides on it. `Ok(Err)`: its runs are not accepted, for this reason.
    async fn load(&self, digest: &Sha256Digest) -> Result<Result<RunHost, String>, NotAccepted> {
        let bundle = match self.folder.list(digest, &self.objects).await {
            Ok(bundle) => bundle,
            Err(BundleError::Unusable(why)) => return Ok(Err(why)),
            Err(BundleError::Failed(report)) => return Err(NotAccepted::Failed(report)),
        };
        let own = self.own.app();
        let agents = match self.folder.unpack_agents(digest, &bundle, &self.objects).await {
            Ok(agents) => agents,
            Err(BundleError::Unusable(why)) => return Ok(Err(why)),
            Err(BundleError::Failed(report)) => return Err(NotAccepted::Failed(report)),
        };
        let mut config = match self.environment.config(&bundle.config, own.config.root.clone(), &agents) {
            Ok(config) => config,
            Err(report) => return Ok(Err(format!("its config cannot be used here: {}", report.with_hint()))),
        };
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
            let plugins = match self.folder.unpack(digest, &bundle, &self.objects).await {
                Ok(plugins) => plugins,
                Err(BundleError::Unusable(why)) => return Ok(Err(why)),
                Err(BundleError::Failed(report)) => return Err(NotAccepted::Failed(report)),
            };
            config.plugin_dirs = vec![plugins];
        }
        let (app, inbox) = match self.environment.app(config, &named) {
            Ok(built) => built,
            Err(report) => return Ok(Err(format!("its config cannot be used here: {}", report.with_hint()))),
        };
        let app = app.with_sandbox_of(own).with_cluster_of(own);
        match self.refusal(&app) {
            Some(why) => Ok(Err(why)),
            None => Ok(Ok(RunHost::new(app, inbox, self.own.options().clone()))),
        }
    }

    /// Returns `true` if this host has the same plugin under this id.
    fn has(&self, plugin: &BundledPlugin) -> bool {
        let own = self.own.app().catalog.entry(&plugin.id).and_then(|own| own.sealed());
        own.is_some_and(|own| plugin.component() == Some(own.digest))
    }

    /// Returns why the runs of an app are not accepted, if the policy is to ask what the person has consented to.
    fn refusal(&self, app: &App) -> Option<String> {
        if self.accept == AcceptPolicy::Any {
            return None;
        }
        let standing = match app.standing(&self.environment.trust(), false) {
            Ok(standing) => standing,
            Err(report) => return Some(report.with_hint()),
        };
        match standing.is_trusted() {
            true => {
                if let Ok(trusted) = standing.trusted() {
                    app.broker.trust(trusted);
                }
                None
            }
            false => {
                let new: Vec<_> = standing.new_facts().lines().take(limits::CLUSTER_RUN_WARNINGS).collect();
                Some(format!("its config names what the operator of the worker has not trusted: {}", new.join("; ")))
            }
        }
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
            loaded.note(*digest, Err("not here".into()));
        }
        loaded.note(digests[0], Err("still not".into()));
        assert_eq!(loaded.0.len(), limits::CLUSTER_BUNDLES_LOADED, "none is there twice");
        assert_eq!(loaded.decision(&digests[0]).and_then(Result::err).as_deref(), Some("still not"));
        loaded.note(*last, Err("new".into()));
        assert_eq!(loaded.0.len(), limits::CLUSTER_BUNDLES_LOADED);
        assert!(loaded.decision(&digests[0]).is_some() && loaded.decision(last).is_some());
        assert!(loaded.decision(&digests[1]).is_none(), "it was not used for longest");
    }
}
