//! A plugin between its file and a [`PluginPackage`]: its component is read, validated by a compiler, then inspected.

use std::{
    borrow::Cow,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use super::{
    anatomy::{Anatomy, ComponentSurvey},
    catalog::{PluginPackage, file_id},
    compile::{CompileStep, ComponentCompiler},
    error::PluginError,
    manifest::PluginManifest,
};
use shelly_core::{digest::Sha256Digest, files, limits};

/// A plugin whose component has not been inspected.
pub(super) struct PluginCandidate<'a> {
    /// `None` for a component file without a manifest.
    pub manifest: Option<Cow<'a, PluginManifest>>,
    /// The folder, or the component file without a folder.
    pub place: &'a Path,
}

/// The bytes of a component, and their digest.
pub(super) struct ComponentBytes {
    pub bytes: Vec<u8>,
    pub digest: Sha256Digest,
}

impl<'a> PluginCandidate<'a> {
    pub fn of_folder(folder: &'a Path) -> Result<Self, PluginError> {
        Ok(Self { manifest: Some(Cow::Owned(PluginManifest::read(folder)?)), place: folder })
    }

    /// Returns the plugin of the folder around `path` if the folder's manifest names this file as its component.
    pub fn of_folder_around(path: &'a Path) -> Option<Self> {
        let unread = Self::of_folder(folder_of(path)).ok()?;
        let is_its =
            unread.manifest.as_ref().is_some_and(|manifest| path.file_name() == Some(manifest.component.as_ref()));
        is_its.then_some(unread)
    }

    pub fn of_file(path: &'a Path) -> Self {
        Self { manifest: None, place: path }
    }

    fn id(&self) -> String {
        self.manifest.as_ref().map_or_else(|| file_id(self.place), |manifest| manifest.id.clone())
    }

    /// Returns the path of the component file.
    pub fn path(&self) -> PathBuf {
        self.manifest.as_ref().map_or_else(|| self.place.to_owned(), |manifest| self.place.join(&manifest.component))
    }

    pub fn read(&self) -> Result<ComponentBytes, PluginError> {
        let bytes = match self.manifest {
            Some(_) => read_inside(&self.path(), self.place, limits::COMPONENT_BYTES),
            None => read_bounded(self.place, limits::COMPONENT_BYTES),
        }?;
        Ok(ComponentBytes { digest: Sha256Digest::of(&bytes), bytes })
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
            return PluginPackage::checked(PluginManifest::clone(manifest), anatomy, self.place, component, false);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let manifest = PluginManifest::of_anatomy(self.id(), name, &anatomy);
        PluginPackage::checked(manifest, anatomy, folder_of(&path), component, true)
    }
}

/// Returns the folder that contains a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Reads a regular file of at most `most` bytes. Pipes and devices are not opened.
pub fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, PluginError> {
    read_at(path, path, most)
}

/// Reads the file at `real` like [`read_bounded`]; errors name it `path`.
fn read_at(real: &Path, path: &Path, most: u64) -> Result<Vec<u8>, PluginError> {
    let unreadable = |source| PluginError::Unreadable { path: path.into(), source };
    let file = files::open(real).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.len() > most {
        return Err(PluginError::TooLarge { path: path.into(), size: metadata.len(), most });
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(most).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Reads a file like [`read_bounded`]. A link that leads out of `folder` is refused.
pub(super) fn read_inside(path: &Path, folder: &Path, most: u64) -> Result<Vec<u8>, PluginError> {
    let unreadable = |source| PluginError::Unreadable { path: path.into(), source };
    // Most files are regular ones in the folder itself, so there is no link to resolve.
    if path.parent() == Some(folder) && fs::symlink_metadata(path).is_ok_and(|there| there.is_file()) {
        return read_at(path, path, most);
    }
    let real = path.canonicalize().map_err(unreadable)?;
    match real.starts_with(folder.canonicalize().map_err(unreadable)?) {
        // Read the resolved path: the links that were just followed may lead elsewhere by now.
        true => read_at(&real, path, most),
        false => Err(PluginError::LeadsOut { path: path.into() }),
    }
}
