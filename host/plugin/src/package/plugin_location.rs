//! The location of a plugin: a folder, a component file, or the program itself.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{
    embedded_plugin::EmbeddedPlugin,
    manifest::{PluginManifest, file_id},
};
use crate::{
    component::{ComponentBytes, read_bounded, read_inside},
    error::PluginError,
};
use shelly_core::{digest::Sha256Digest, limits};

/// The location of a plugin.
#[derive(Debug, Clone)]
pub enum PluginLocation {
    /// A folder with a component and the manifest that the plugin needs to be used.
    Folder(PathBuf),
    /// A component file, which has no manifest. The folder around it is not the plugin's own.
    File(PathBuf),
    /// The program: the plugin was built into it.
    Program(&'static EmbeddedPlugin),
}

impl PluginLocation {
    /// Returns the location of the plugin at a path: a folder, or else a file.
    pub(super) fn at(path: &Path) -> Self {
        if path.is_dir() { Self::Folder(path.into()) } else { Self::File(path.into()) }
    }

    /// Returns the path of the folder or file; `None` inside the program.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Folder(path) | Self::File(path) => Some(path),
            Self::Program(_) => None,
        }
    }

    /// Returns the folder of the plugin, or the one around its component file, where other plugins may lie too; `None` inside
    /// the program.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::File(file) => Some(file.parent().unwrap_or(Path::new(""))),
            Self::Program(_) => None,
        }
    }

    /// Returns `true` if the plugin lies directly in one of these plugin directories. A link to a plugin lies where the
    /// link is.
    pub fn lies_in(&self, directories: &[PathBuf]) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        let parent = self.path().and_then(Path::parent).and_then(real);
        parent.is_some_and(|parent| directories.iter().any(|directory| real(directory).as_ref() == Some(&parent)))
    }

    /// Returns `true` if the plugin itself lies directly in one of these plugin directories, not only a link to it.
    pub(super) fn really_lies_in(&self, directories: &[PathBuf]) -> bool {
        let real = self.path().and_then(|path| path.canonicalize().ok());
        real.is_some_and(|path| Self::Folder(path).lies_in(directories))
    }

    /// Returns `true` for a component file without a manifest.
    pub fn is_lone_component(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Returns the path of the component as errors name it; inside the program there is no file of this name.
    pub(crate) fn component_path(&self, manifest: Option<&PluginManifest>) -> PathBuf {
        match self {
            Self::Folder(folder) => manifest.map_or(folder.clone(), |manifest| folder.join(&manifest.component)),
            Self::File(file) => file.clone(),
            Self::Program(plugin) => PathBuf::from(format!("{plugin} of this program")),
        }
    }

    /// Reads the manifest. Returns the id in it, and the manifest; for a component file, which has none, the id that the name
    /// of the file gives.
    ///
    /// # Errors
    ///
    /// [`PluginError`] that names the file and, where known, the line.
    pub(super) fn read_manifest(&self) -> Result<(String, Option<PluginManifest>), PluginError> {
        let manifest = match self {
            Self::Folder(folder) => PluginManifest::read(folder)?,
            Self::File(file) => return Ok((file_id(file), None)),
            Self::Program(plugin) => PluginManifest::parse(plugin.manifest)
                .map_err(|message| PluginError::Manifest { path: self.component_path(None), message })?,
        };
        Ok((manifest.id.clone(), Some(manifest)))
    }

    /// Reads the component. `manifest` names its file in a folder.
    ///
    /// # Errors
    ///
    /// [`PluginError`] if it cannot be read, is too large, or a link leads out of the folder.
    pub(super) fn read(&self, manifest: Option<&PluginManifest>) -> Result<ComponentBytes, PluginError> {
        let path = self.component_path(manifest);
        let bytes = match self {
            Self::Folder(folder) => read_inside(&path, folder, limits::COMPONENT_BYTES)?,
            Self::File(_) => read_bounded(&path, limits::COMPONENT_BYTES)?,
            Self::Program(plugin) => plugin.component().map_err(|source| PluginError::Unreadable { path, source })?,
        };
        Ok(ComponentBytes { digest: Sha256Digest::of(&bytes), bytes })
    }
}

/// Writes the path, or says that the plugin is part of the program.
impl fmt::Display for PluginLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) | Self::File(path) => write!(f, "{}", path.display()),
            Self::Program(_) => f.write_str("the program"),
        }
    }
}
