//! A plugin between its file and a [`PluginPackage`]: its component is read, validated by a compiler, then inspected.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use super::{manifest::PluginManifest, plugin_location::PluginLocation, plugin_package::PluginPackage};
use crate::{
    compile::{CompileStep, ComponentCompiler},
    component::{Anatomy, ComponentBytes, ComponentSurvey},
    error::PluginError,
};
use shelly_core::files::folder_of;

/// A plugin whose component has not been inspected.
pub(super) struct PluginCandidate<'a> {
    /// `None` for a component file without a manifest.
    pub manifest: Option<Cow<'a, PluginManifest>>,
    pub location: Cow<'a, PluginLocation>,
}

impl PluginCandidate<'_> {
    pub fn of_folder(folder: &Path) -> Result<Self, PluginError> {
        let manifest = Some(Cow::Owned(PluginManifest::read(folder)?));
        Ok(Self { manifest, location: Cow::Owned(PluginLocation::Folder(folder.into())) })
    }

    /// Returns the plugin of the folder around `path` if the folder's manifest names this file as its component.
    pub fn of_folder_around(path: &Path) -> Option<Self> {
        let candidate = Self::of_folder(folder_of(path)).ok()?;
        let is_its =
            candidate.manifest.as_ref().is_some_and(|manifest| path.file_name() == Some(manifest.component.as_ref()));
        is_its.then_some(candidate)
    }

    pub fn of_file(path: &Path) -> Self {
        Self { manifest: None, location: Cow::Owned(PluginLocation::File(path.into())) }
    }

    fn id(&self) -> String {
        self.location.id(self.manifest.as_deref())
    }

    /// Returns the path of the component file, as errors name it.
    pub fn path(&self) -> PathBuf {
        self.location.component_path(self.manifest.as_deref())
    }

    pub fn read(&self) -> Result<ComponentBytes, PluginError> {
        self.location.read(self.manifest.as_deref())
    }

    /// Refuses a component that is too complex, before a compiler process is started for it.
    fn count(&self, component: &ComponentBytes) -> Result<(), PluginError> {
        let counted = ComponentSurvey::of(&component.bytes).map(drop);
        counted.map_err(|source| PluginError::Component { path: self.path(), source })
    }

    pub async fn open(&self, compiler: &ComponentCompiler, step: CompileStep) -> Result<PluginPackage, PluginError> {
        let component = self.read()?;
        self.admit(&component, compiler, step).await?;
        self.look_into(&component)
    }

    /// Has a compiler validate the component, unless its verdict is known.
    async fn admit(
        &self,
        component: &ComponentBytes,
        compiler: &ComponentCompiler,
        step: CompileStep,
    ) -> Result<(), PluginError> {
        if compiler.is_admitted(component.digest) {
            return Ok(());
        }
        self.count(component)?;
        let admitted = compiler.admit(component.digest, &component.bytes, step).await;
        admitted.map_err(|refused| refused.of_plugin(self.id(), self.path()))
    }

    pub fn admit_blocking(&self, component: &ComponentBytes, compiler: &ComponentCompiler) -> Result<(), PluginError> {
        if compiler.is_admitted(component.digest) {
            return Ok(());
        }
        self.count(component)?;
        let admitted = compiler.admit_blocking(component.digest, &component.bytes);
        admitted.map_err(|refused| refused.of_plugin(self.id(), self.path()))
    }

    /// Validates the component in this process and checks it against the manifest.
    pub fn look_into(&self, component: &ComponentBytes) -> Result<PluginPackage, PluginError> {
        let path = self.path();
        let anatomy = Anatomy::of_file(&path, &component.bytes)?;
        if let Some(manifest) = &self.manifest {
            return PluginPackage::checked(PluginManifest::clone(manifest), anatomy, &self.location, component);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let manifest = PluginManifest::of_anatomy(self.id(), name, &anatomy);
        PluginPackage::checked(manifest, anatomy, &self.location, component)
    }
}

impl PluginPackage {
    /// Reads a plugin folder and checks that this host can run it. Validates the component in this process, without a
    /// bound on time and memory: use it for trusted components, and [`PluginPackage::open`] for untrusted ones.
    ///
    /// # Errors
    ///
    /// [`PluginError`].
    pub fn read(folder: &Path) -> Result<Self, PluginError> {
        let candidate = PluginCandidate::of_folder(folder)?;
        candidate.look_into(&candidate.read()?)
    }

    /// Reads a component file and derives its manifest from its exports and imports; a file that a manifest beside it
    /// names as its component is read as that plugin. Validates in this process, without a bound, like
    /// [`PluginPackage::read`].
    ///
    /// # Errors
    ///
    /// [`PluginError`].
    pub fn read_file(path: &Path) -> Result<Self, PluginError> {
        if let Some(candidate) = PluginCandidate::of_folder_around(path)
            && let Ok(package) = candidate.read().and_then(|component| candidate.look_into(&component))
        {
            return Ok(package);
        }
        let candidate = PluginCandidate::of_file(path);
        candidate.look_into(&candidate.read()?)
    }

    /// Reads a plugin folder, or a component file, once a compiler has validated the component.
    ///
    /// # Errors
    ///
    /// [`PluginError`].
    pub async fn open(path: &Path, compiler: &ComponentCompiler, step: CompileStep) -> Result<Self, PluginError> {
        if path.is_dir() {
            return PluginCandidate::of_folder(path)?.open(compiler, step).await;
        }
        if let Some(candidate) = PluginCandidate::of_folder_around(path)
            && let Ok(package) = candidate.open(compiler, step).await
        {
            return Ok(package);
        }
        PluginCandidate::of_file(path).open(compiler, step).await
    }
}
