use std::{
    borrow::Cow,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use tokio::sync::Semaphore;

use super::{
    locked_plugin::LockedPlugin, manifest::PluginManifest, plugin_candidate::PluginCandidate,
    plugin_location::PluginLocation, plugin_package::PluginPackage,
};
use crate::{
    compile::{CompileStep, ComponentCompiler},
    contract::PluginKind,
    error::PluginError,
};
use shelly_core::{digest::Sha256Digest, limits};

/// One plugin of a [`PluginCatalog`](crate::PluginCatalog).
#[derive(Debug)]
pub struct CatalogEntry {
    compiler: Arc<ComponentCompiler>,
    location: PluginLocation,
    /// The id under which it is listed; for a plugin without a readable manifest, another name.
    id: String,
    /// `None` for a component file without a manifest, and for a folder whose manifest cannot be read.
    manifest: Option<PluginManifest>,
    /// The entry of the lock file that the plugin was found by.
    locked: Option<Arc<LockedPlugin>>,
    /// Empty until the package is first requested.
    package: OnceLock<Result<Arc<PluginPackage>, PluginError>>,
    /// Empty until the descriptor is first requested; `None` if the component cannot be read.
    sealed: OnceLock<Option<ComponentDescriptor>>,
}

/// The size and digest of a component: enough to ask a person for approval before the component is inspected.
#[derive(Debug, Clone, Copy)]
pub struct ComponentDescriptor {
    /// Size of the component in bytes.
    pub size: u64,
    /// SHA-256 of the component.
    pub digest: Sha256Digest,
}

impl CatalogEntry {
    /// Creates the entry of a plugin whose component has not been read.
    pub(super) fn unread(
        compiler: &Arc<ComponentCompiler>,
        location: PluginLocation,
        id: String,
        manifest: Option<PluginManifest>,
    ) -> Self {
        let (locked, package, sealed) = Default::default();
        Self { compiler: Arc::clone(compiler), location, id, manifest, locked, package, sealed }
    }

    /// Creates the entry of a plugin that cannot be used.
    pub(super) fn unusable(
        compiler: &Arc<ComponentCompiler>,
        location: PluginLocation,
        id: String,
        error: PluginError,
    ) -> Self {
        let (package, sealed) = (OnceLock::from(Err(error)), OnceLock::from(None));
        Self { compiler: Arc::clone(compiler), location, id, manifest: None, locked: None, package, sealed }
    }

    /// Sets the entry of the lock file that the plugin was found by: another component is refused.
    pub(super) fn with_lock(self, locked: &Arc<LockedPlugin>) -> Self {
        Self { locked: Some(Arc::clone(locked)), ..self }
    }

    /// Returns `true` if the plugin is one that a person has installed for all projects.
    pub fn is_installed_for_person(&self) -> bool {
        self.locked.as_ref().is_some_and(|locked| locked.is_personal)
    }

    /// Returns the id under which it is listed; for a plugin without a readable manifest, another name.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns `true` if the plugin is known to be unusable.
    pub(super) fn is_unusable(&self) -> bool {
        self.package.get().is_some_and(Result::is_err)
    }

    /// Sets the compiler that validates the component, unless it has been read.
    pub(super) fn set_compiler(&mut self, compiler: &Arc<ComponentCompiler>) {
        self.compiler = Arc::clone(compiler);
    }

    /// Returns the plugin; the first call reads and validates its component. Blocks the caller while a process of its
    /// own validates the component: async callers use [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// The same [`PluginError`] at each call.
    pub fn package(&self) -> Result<&Arc<PluginPackage>, &PluginError> {
        let package = self.package.get_or_init(|| {
            let candidate = self.candidate();
            let component = candidate.read()?;
            candidate.admit_blocking(&component, &self.compiler)?;
            self.fitting(candidate.look_into(&component)?)
        });
        package.as_ref()
    }

    /// Reads and validates the component, and compiles it if `step` says so, unless that was done before. Errors are
    /// returned by [`package`](Self::package) afterwards. Dropping the future ends the compiler process.
    pub async fn open(&self, step: CompileStep) {
        /// Bounds the components in memory to the number that can be compiled at once.
        static OPENING: Semaphore = Semaphore::const_new(limits::COMPILE_CHILDREN);
        // The semaphore is never closed.
        let _permit = OPENING.acquire().await;
        if self.package.get().is_none() {
            let package = self.candidate().open(&self.compiler, step).await.and_then(|package| self.fitting(package));
            // A concurrent call may have set it first, with the same result.
            let _ = self.package.set(package);
        }
    }

    fn candidate(&self) -> PluginCandidate<'_> {
        let manifest = self.manifest.as_ref().map(Cow::Borrowed);
        let locked = self.locked.as_deref();
        PluginCandidate { id: Cow::Borrowed(&self.id), manifest, location: Cow::Borrowed(&self.location), locked }
    }

    /// Refuses a component that is not the one that a person was asked about, and an effect without a manifest, since
    /// only a manifest says when an effect is called.
    fn fitting(&self, package: PluginPackage) -> Result<Arc<PluginPackage>, PluginError> {
        if package.location.is_lone_component() && package.manifest.kinds.contains(&PluginKind::Effect) {
            return Err(PluginError::EffectAlone { id: package.manifest.id });
        }
        match self.sealed.get() {
            Some(Some(sealed)) if sealed.digest != package.digest => {
                Err(PluginError::Changed { path: self.component() })
            }
            _ => Ok(Arc::new(package)),
        }
    }

    /// Reads the component without inspecting its content; `None` if it cannot be read. From then on
    /// [`package`](Self::package) refuses any other component.
    pub fn sealed(&self) -> Option<ComponentDescriptor> {
        if let Some(Ok(package)) = self.package.get() {
            return Some(ComponentDescriptor { size: package.size, digest: package.digest });
        }
        *self.sealed.get_or_init(|| {
            let component = self.candidate().read().ok()?;
            Some(ComponentDescriptor { size: component.bytes.len() as u64, digest: component.digest })
        })
    }

    /// Returns the path of the component file, as errors name it.
    pub(super) fn component(&self) -> PathBuf {
        self.location.component_path(self.manifest.as_ref())
    }

    /// Returns the location of the plugin.
    pub fn location(&self) -> &PluginLocation {
        &self.location
    }

    /// Returns the `plugin.toml`; `None` for a component file without one, and if it cannot be read.
    pub fn written_manifest(&self) -> Option<&PluginManifest> {
        self.manifest.as_ref()
    }

    /// Returns the manifest. Reads the component only if there is no `plugin.toml`. The component in a folder may still
    /// turn out to disagree with the manifest.
    ///
    /// # Errors
    ///
    /// [`PluginError`] if there is neither a readable manifest nor a component to derive one from.
    pub fn manifest(&self) -> Result<&PluginManifest, &PluginError> {
        match &self.manifest {
            Some(manifest) => Ok(manifest),
            None => self.package().map(|package| &package.manifest),
        }
    }
}
