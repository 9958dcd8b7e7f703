//! A plugin between its file and a [`PluginPackage`]: its component is read, validated by a compiler, then inspected.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    locked_plugin::LockedPlugin,
    manifest::{PluginManifest, file_id},
    plugin_location::PluginLocation,
    plugin_package::PluginPackage,
    plugin_review::PluginReview,
};
use crate::{
    compile::{CompileInput, CompileStep, ComponentCompiler},
    component::{Anatomy, ComponentBytes, ComponentSurvey},
    error::PluginError,
};
use shelly_core::files::folder_of;

/// A plugin whose component has not been inspected.
pub(super) struct PluginCandidate<'a> {
    pub id: Cow<'a, str>,
    /// `None` for a component file without a manifest.
    pub manifest: Option<Cow<'a, PluginManifest>>,
    pub location: Cow<'a, PluginLocation>,
    /// The entry of the lock file that the plugin was found by: it has no other component.
    pub locked: Option<&'a LockedPlugin>,
}

impl PluginCandidate<'_> {
    pub fn of_folder(folder: &Path) -> Result<Self, PluginError> {
        let manifest = PluginManifest::read(folder)?;
        let location = Cow::Owned(PluginLocation::Folder(folder.into()));
        Ok(Self { id: Cow::Owned(manifest.id.clone()), manifest: Some(Cow::Owned(manifest)), location, locked: None })
    }

    /// Returns the plugin of a component file: that of the folder around it, if the manifest there names the file as its
    /// component, or else the file alone.
    ///
    /// # Errors
    ///
    /// [`PluginError`] if the manifest beside the file cannot be read: it may name the file.
    pub fn of_file(path: &Path) -> Result<Self, PluginError> {
        match Self::of_folder(folder_of(path)) {
            Ok(candidate) if candidate.has_component_at(path) => return Ok(candidate),
            Ok(_) | Err(PluginError::NoManifest { .. }) => {}
            Err(error) => return Err(error),
        }
        let location = Cow::Owned(PluginLocation::File(path.into()));
        Ok(Self { id: Cow::Owned(file_id(path)), manifest: None, location, locked: None })
    }

    /// Returns the plugin at a path: a folder, or a component file.
    pub fn at(path: &Path) -> Result<Self, PluginError> {
        if path.is_dir() { Self::of_folder(path) } else { Self::of_file(path) }
    }

    fn has_component_at(&self, path: &Path) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| path.file_name() == Some(manifest.component.as_ref()))
    }

    /// Returns the path of the component file, as errors name it.
    pub fn path(&self) -> PathBuf {
        self.location.component_path(self.manifest.as_deref())
    }

    pub fn read(&self) -> Result<ComponentBytes, PluginError> {
        let component = self.location.read(self.manifest.as_deref())?;
        if let Some(locked) = self.locked {
            locked.check_component(component.digest)?;
        }
        Ok(component)
    }

    /// Refuses a component that is too complex, before a compiler process is started for it.
    fn refuse_too_complex(&self, component: &ComponentBytes) -> Result<(), PluginError> {
        let surveyed = ComponentSurvey::of(&component.bytes).map(drop);
        surveyed.map_err(|source| PluginError::Component { path: self.path(), source })
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
        self.refuse_too_complex(component)?;
        let admitted = compiler.admit(component.digest, self.compile_input(component), step).await;
        admitted.map_err(|refused| refused.of_plugin(self.id.to_string(), self.path()))
    }

    pub fn admit_blocking(&self, component: &ComponentBytes, compiler: &ComponentCompiler) -> Result<(), PluginError> {
        if compiler.is_admitted(component.digest) {
            return Ok(());
        }
        self.refuse_too_complex(component)?;
        let admitted = compiler.admit_blocking(component.digest, self.compile_input(component));
        admitted.map_err(|refused| refused.of_plugin(self.id.to_string(), self.path()))
    }

    fn compile_input<'a>(&'a self, component: &'a ComponentBytes) -> CompileInput<'a> {
        CompileInput { id: &self.id, bytes: &component.bytes }
    }

    /// Validates the component in this process and checks it against the manifest.
    pub fn look_into(&self, component: &ComponentBytes) -> Result<PluginPackage, PluginError> {
        let anatomy = Anatomy::of_file(&self.path(), &component.bytes)?;
        PluginPackage::checked(self.manifest_for(&anatomy), anatomy, &self.location, component)
    }

    /// Reads the component for a review: what it is, and if manifest and component agree.
    pub async fn review(&self, compiler: &ComponentCompiler) -> Result<PluginReview, PluginError> {
        let component = self.read()?;
        self.admit(&component, compiler, CompileStep::Validate).await?;
        let anatomy = Anatomy::of_file(&self.path(), &component.bytes)?;
        let manifest = self.manifest_for(&anatomy);
        let package = PluginPackage::checked(manifest.clone(), anatomy.clone(), &self.location, &component);
        let (size, digest) = (component.bytes.len() as u64, component.digest);
        Ok(PluginReview { manifest, anatomy, size, digest, package: package.map(Arc::new) })
    }

    /// Returns the manifest, or the one that follows from the component.
    fn manifest_for(&self, anatomy: &Anatomy) -> PluginManifest {
        if let Some(manifest) = &self.manifest {
            return PluginManifest::clone(manifest);
        }
        let name = self.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        PluginManifest::of_anatomy(self.id.to_string(), name, anatomy)
    }
}

impl PluginReview {
    /// Reads the plugin at a path for a review. Manifest and component need not agree.
    ///
    /// # Errors
    ///
    /// [`PluginError`] if a file cannot be read, or the component cannot be compiled.
    pub async fn open(path: &Path, compiler: &ComponentCompiler) -> Result<Self, PluginError> {
        PluginCandidate::at(path)?.review(compiler).await
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
    /// [`PluginError`], also if the manifest beside the file cannot be read.
    pub fn read_file(path: &Path) -> Result<Self, PluginError> {
        let candidate = PluginCandidate::of_file(path)?;
        candidate.look_into(&candidate.read()?)
    }

    /// Reads a plugin folder, or a component file like [`PluginPackage::read_file`], once a compiler has validated the
    /// component.
    ///
    /// # Errors
    ///
    /// [`PluginError`].
    pub async fn open(path: &Path, compiler: &ComponentCompiler, step: CompileStep) -> Result<Self, PluginError> {
        PluginCandidate::at(path)?.open(compiler, step).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A component with one function and nothing else.
    const FUNCTION: &str = "(component (core module $m (func (export \"f\"))) (core instance $i (instantiate $m)) \
                            (func (export \"go\") (canon lift (core func $i \"f\"))))";

    /// Reads the component of a folder by the path of its file, in both ways, with this manifest beside it.
    async fn read(manifest: Option<&str>) -> [Result<PluginPackage, PluginError>; 2] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.wasm");
        fs::write(&path, wat::parse_str(FUNCTION).unwrap()).unwrap();
        manifest.into_iter().for_each(|text| fs::write(folder.path().join("plugin.toml"), text).unwrap());
        let compiler = ComponentCompiler::in_process();
        [PluginPackage::read_file(&path), PluginPackage::open(&path, &compiler, CompileStep::Validate).await]
    }

    #[tokio::test]
    async fn component_file_is_read_with_the_manifest_that_names_it() {
        for (manifest, id) in [
            (None, "c"),
            (Some("id = \"named\"\ncomponent = \"c.wasm\"\nkinds = [\"functions\"]\n"), "named"),
            (Some("id = \"other\"\ncomponent = \"other.wasm\"\nkinds = [\"functions\"]\n"), "c"),
        ] {
            for package in read(manifest).await {
                assert_eq!(package.unwrap().manifest.id, id, "{manifest:?}");
            }
        }
    }

    #[tokio::test]
    async fn error_of_the_plugin_around_a_file_is_returned() {
        let wrong_kind = "id = \"named\"\ncomponent = \"c.wasm\"\nkinds = [\"tool\"]\n";
        for (manifest, says) in [(wrong_kind, "declares the kinds [\"tool\"]"), ("id = 1", "invalid manifest")] {
            for package in read(Some(manifest)).await {
                let error = package.unwrap_err().to_string();
                assert!(error.contains(says), "{manifest}: {error}");
            }
        }
    }
}
