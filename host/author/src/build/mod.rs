//! The build of a project: from its sources to a plugin folder.

mod c;
mod cargo_output;
mod go;
mod go_overlay;
mod javascript;
mod plugin_build;
mod python;
mod rebuild;
mod rust;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use shelly_core::{files, limits};

use self::plugin_build::read;
pub use self::{plugin_build::PluginBuild, rebuild::rebuild_twice};
use crate::{author_error::AuthorError, encoding::add_docs, language::PluginLanguage, project_wit::ProjectWit};

/// A component that was built. It is not in the place of the last one yet, which may be in use.
#[derive(Debug)]
pub struct BuiltPlugin {
    /// The folder with the component and `plugin.toml`.
    pub staged: PathBuf,
    /// The folder that it belongs into.
    pub output: PathBuf,
}

impl PluginBuild<'_> {
    /// Builds the component, and writes it with the manifest into a folder of its own.
    ///
    /// # Errors
    ///
    /// [`AuthorError`].
    pub fn run(mut self) -> Result<BuiltPlugin, AuthorError> {
        let work = self.project.work();
        fs::create_dir_all(&work).map_err(AuthorError::file("create", &work))?;
        let (mut component, wit) = match self.project.language {
            PluginLanguage::Rust => rust::component(&mut self)?,
            PluginLanguage::Python => python::component(&mut self)?,
            PluginLanguage::JavaScript | PluginLanguage::TypeScript => javascript::component(&mut self)?,
            PluginLanguage::Go => go::component(&mut self)?,
            PluginLanguage::C => c::component(&mut self)?,
        };
        // Kinds of the contract describe themselves.
        let documented = wit.filter(ProjectWit::is_of_its_own).map(|wit| {
            add_docs(&mut component, &wit);
            wit.text()
        });
        self.stage(&component, documented.flatten().as_deref())
    }

    /// Writes the component and the manifest into a folder in which only they are, and the WIT of a component with functions
    /// of its own.
    fn stage(&self, component: &[u8], documented: Option<&str>) -> Result<BuiltPlugin, AuthorError> {
        let staged = self.project.work().join(&self.project.settings.id);
        if staged.exists() {
            fs::remove_dir_all(&staged).map_err(AuthorError::file("remove", &staged))?;
        }
        fs::create_dir_all(&staged).map_err(AuthorError::file("create", &staged))?;
        let write = |name: &str, bytes: &[u8]| {
            let path = staged.join(name);
            files::replace(&path, bytes).map_err(AuthorError::file("write", &path))
        };
        write(&self.project.settings.component, component)?;
        if let Some(text) = documented {
            let name = Path::new(&self.project.settings.component).with_extension("wit");
            write(&name.to_string_lossy(), text.as_bytes())?;
        }
        let manifest = self.project.folder.join("plugin.toml");
        write("plugin.toml", &read(&manifest, limits::MANIFEST_BYTES)?)?;
        Ok(BuiltPlugin { staged, output: self.project.output() })
    }
}

impl BuiltPlugin {
    /// Puts the plugin into its place and removes what was there. Returns the folder.
    ///
    /// # Errors
    ///
    /// [`AuthorError::InTheWay`] if something else than a plugin is there, or [`AuthorError::File`].
    pub fn install(&self) -> Result<&Path, AuthorError> {
        let output = &self.output;
        if output.symlink_metadata().is_ok() {
            let others = others_in(output).map_err(AuthorError::file("read", output))?;
            if !others.is_empty() {
                return Err(AuthorError::InTheWay { paths: others });
            }
            fs::remove_dir_all(output).map_err(AuthorError::file("remove", output))?;
        }
        fs::rename(&self.staged, output).map_err(AuthorError::file("write", output))?;
        Ok(output)
    }
}

/// Returns what no build has written into a folder.
fn others_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut others = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_built = path.ends_with("plugin.toml")
            || path.extension().is_some_and(|extension| extension == "wasm" || extension == "wit");
        if !is_built || !path.is_file() {
            others.push(path);
        }
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plugin_project::{PluginProject, ProjectSettings},
        toolchain::BuildEnvironment,
    };

    fn project(folder: &Path) -> PluginProject {
        let settings = ProjectSettings {
            id: "dice".into(),
            component: "dice.wasm".into(),
            language: Some("c".into()),
            ..ProjectSettings::default()
        };
        fs::write(folder.join("plugin.toml"), "id = \"dice\"\n").unwrap();
        PluginProject::recognise(folder, settings).unwrap()
    }

    /// Stages a component and puts it into its place.
    fn installed(project: &PluginProject, component: &[u8], wit: Option<&str>) -> Result<PathBuf, AuthorError> {
        let environment = BuildEnvironment::default();
        let mut show = |_: &str| {};
        fs::create_dir_all(project.work()).unwrap();
        let built = PluginBuild::new(project, &environment, false, &mut show).stage(component, wit)?;
        built.install().map(Path::to_owned)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = entries.collect();
        names.sort();
        names
    }

    #[test]
    fn new_build_replaces_the_last_one_and_nothing_else() {
        let world = tempfile::tempdir().unwrap();
        let project = project(world.path());
        let folder = installed(&project, b"one", Some("package a:b;")).unwrap();
        assert_eq!(folder, project.folder.join("build/dice"));
        assert_eq!(names(&folder), ["dice.wasm", "dice.wit", "plugin.toml"]);
        installed(&project, b"two", None).unwrap();
        assert_eq!(names(&folder), ["dice.wasm", "plugin.toml"]);
        assert_eq!(fs::read(folder.join("dice.wasm")).unwrap(), b"two");
        fs::write(folder.join("notes.md"), "mine").unwrap();
        let error = installed(&project, b"three", None).unwrap_err();
        assert!(matches!(&error, AuthorError::InTheWay { paths } if paths == &[folder.join("notes.md")]), "{error}");
        assert_eq!(names(&folder), ["dice.wasm", "notes.md", "plugin.toml"]);
    }

    #[test]
    fn manifest_beyond_its_limit_is_not_copied() {
        let world = tempfile::tempdir().unwrap();
        let project = project(world.path());
        let size = limits::MANIFEST_BYTES + 1;
        fs::write(project.folder.join("plugin.toml"), "#".repeat(usize::try_from(size).unwrap())).unwrap();
        let error = installed(&project, b"one", None).unwrap_err();
        assert!(matches!(error, AuthorError::TooLarge { most: limits::MANIFEST_BYTES, .. }), "{error}");
    }
}
