//! The entry point: turns folders of guests into folders of plugins.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::discover::{Guest, discover};
use crate::error::BuildError;
use crate::{assemble, cargo, toolchain};

/// A folder of guests, and the folder that receives their plugin folders.
#[derive(Debug, Clone)]
pub struct GuestFolder {
    /// The name of the folder in generated source, in the singular: `plugin` gives `mod plugin` and `foreach_plugin!`.
    pub name: String,
    /// The folder whose subfolders are guests, relative to the workspace.
    pub source: PathBuf,
    /// The folder in which plugin folders are assembled, relative to the workspace. It belongs to the builder, which
    /// removes the plugin folders of guests that do not exist any more.
    pub output: PathBuf,
}

impl GuestFolder {
    /// Creates a guest folder from its three fields.
    pub fn new(name: impl Into<String>, source: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), source: source.into(), output: output.into() }
    }
}

/// A guest that was built and assembled into a plugin folder.
#[derive(Debug, Clone)]
pub struct Built {
    /// The [`GuestFolder::name`] of the folder that contains the guest.
    pub folder: String,
    /// The name of the guest's package, of its folder and of the plugin.
    pub id: String,
    /// The absolute path of the plugin folder.
    pub plugin: PathBuf,
    /// The absolute path of the component in the plugin folder.
    pub component: PathBuf,
    /// The files of the workspace that the guest was built from, absolute and sorted: its sources and those of the
    /// workspace crates that it uses, the files that they include, their manifests, `plugin.toml`, `Cargo.lock` and the
    /// toolchain script.
    pub inputs: Vec<PathBuf>,
}

/// A builder of the guests of one workspace.
#[derive(Debug)]
pub struct Builder {
    root: PathBuf,
    locked: bool,
    /// The guests to build; `None` for all.
    only: Option<BTreeSet<String>>,
}

impl Builder {
    /// Creates a builder for the workspace with this root folder.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn new(workspace_root: impl AsRef<Path>) -> Result<Self, BuildError> {
        let root = workspace_root.as_ref();
        let root = root.canonicalize().map_err(BuildError::file("find the workspace", root))?;
        Ok(Self { root, locked: false, only: None })
    }

    /// Sets whether cargo must refuse to change `Cargo.lock` (`--locked`). The default is `false`.
    pub fn locked(mut self, locked: bool) -> Self {
        self.locked = locked;
        self
    }

    /// Builds only the guests of these names, and leaves the plugin folders of the others as they are.
    pub fn only(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.only = Some(names.into_iter().collect());
        self
    }

    /// Returns the absolute path of the workspace's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the guests in a folder, sorted by name, without building anything.
    ///
    /// # Errors
    /// If the folder cannot be read or one of its guests is malformed.
    pub fn discover(&self, folder: &GuestFolder) -> Result<Vec<Guest>, BuildError> {
        discover(&self.root.join(&folder.source))
    }

    /// Builds the guests of all these folders and assembles their plugin folders. Files that are up to date are not
    /// touched, not even their modification times. The output of cargo and of the toolchain script goes to this process's
    /// stderr.
    ///
    /// # Errors
    /// If a guest is malformed, no toolchain can build it, it does not compile, or a file cannot be written.
    pub fn build(&self, folders: &[GuestFolder]) -> Result<Vec<Built>, BuildError> {
        let mut found = Vec::new();
        for folder in folders {
            found.push((folder, self.discover(folder)?));
        }
        let is_built = |guest: &&Guest| self.only.as_ref().is_none_or(|only| only.contains(&guest.id));
        let packages = found.iter().flat_map(|(_, guests)| guests).filter(is_built);
        let packages: Vec<&str> = packages.map(|guest| guest.id.as_str()).collect();
        if !packages.is_empty() {
            let variables = toolchain::prepare(&self.root)?;
            cargo::build(&self.root, &packages, &variables, self.locked)?;
        }

        let mut all = Vec::new();
        for (folder, guests) in &found {
            let output = self.root.join(&folder.output);
            for guest in guests.iter().filter(is_built) {
                all.push(self.assemble(folder, guest, &output)?);
            }
            assemble::remove_others(&output, guests)?;
        }
        Ok(all)
    }

    fn assemble(&self, folder: &GuestFolder, guest: &Guest, output: &Path) -> Result<Built, BuildError> {
        let artifact = cargo::artifact(&self.root, guest);
        if !artifact.is_file() {
            return Err(BuildError::NoComponent { package: guest.id.clone(), expected: artifact });
        }
        let plugin = output.join(&guest.id);
        let component = assemble::plugin_folder(guest, &artifact, &plugin)?;
        Ok(Built {
            folder: folder.name.clone(),
            id: guest.id.clone(),
            plugin,
            component,
            inputs: self.inputs(guest, &artifact)?,
        })
    }

    fn inputs(&self, guest: &Guest, artifact: &Path) -> Result<Vec<PathBuf>, BuildError> {
        let mut inputs = BTreeSet::new();
        for path in cargo::sources(&self.root, artifact)? {
            // The dep-info files of cargo do not list manifests.
            let in_workspace = path.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.root));
            inputs.extend(in_workspace.map(|folder| folder.join("Cargo.toml")).find(|manifest| manifest.is_file()));
            inputs.insert(path);
        }
        inputs.extend(["Cargo.toml", "Cargo.lock", toolchain::SCRIPT].map(|file| self.root.join(file)));
        inputs.extend(["Cargo.toml", "plugin.toml"].map(|file| guest.folder.join(file)));
        // A build script that watches a missing file would run every time.
        inputs.retain(|path| path.exists());
        Ok(inputs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn build_inputs_are_sources_manifests_and_shared_files() {
        let dir = TempDir::new();
        for file in ["Cargo.toml", "Cargo.lock", "sdk/Cargo.toml", "sdk/src/lib.rs", toolchain::SCRIPT] {
            dir.write(file, "");
        }
        dir.write("plugins/a/Cargo.toml", "[package]\nname = \"a\"\n[lib]\ncrate-type = [\"cdylib\"]\n");
        dir.write("plugins/a/plugin.toml", "");
        dir.write("plugins/a/src/lib.rs", "");
        let builder = Builder::new(dir.path()).expect("a workspace");
        let root = builder.root().to_owned();
        let guests = builder.discover(&GuestFolder::new("plugin", "plugins", "target/plugins")).expect("guests");
        let artifact = cargo::artifact(&root, &guests[0]);
        let sources = ["plugins/a/src/lib.rs", "sdk/src/lib.rs", "gone.rs"].map(|file| root.join(file));
        let line =
            sources.iter().fold(format!("{}:", artifact.display()), |line, path| format!("{line} {}", path.display()));
        dir.write(artifact.with_extension("d").strip_prefix(&root).expect("below the root"), &line);

        let inputs = builder.inputs(&guests[0], &artifact).expect("inputs");
        let mut want = [
            "Cargo.lock",
            "Cargo.toml",
            "plugins/a/Cargo.toml",
            "plugins/a/plugin.toml",
            "plugins/a/src/lib.rs",
            "sdk/Cargo.toml",
            "sdk/src/lib.rs",
            toolchain::SCRIPT,
        ]
        .map(|file| root.join(file));
        want.sort();
        assert_eq!(inputs, want);
    }

    #[test]
    fn build_of_empty_folders_needs_no_toolchain() {
        let dir = TempDir::new();
        dir.write("plugins/README.md", "");
        dir.write("target/plugins/gone/plugin.toml", "");
        let built = Builder::new(dir.path())
            .and_then(|builder| builder.build(&[GuestFolder::new("plugin", "plugins", "target/plugins")]))
            .expect("nothing to build");
        assert!(built.is_empty());
        assert!(!dir.path().join("target/plugins/gone").exists());
    }
}
