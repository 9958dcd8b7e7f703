use std::path::{Path, PathBuf};

use crate::{
    cli::render::name,
    error::{ErrorKind, Report},
    plugin::PluginManifest,
};

/// The plugin that is checked.
pub struct CheckSubject {
    /// Its folder, its component file, or its id.
    pub plugin: PathBuf,
    /// The folder of the project that it was built from, and the manifest there, if the project was named.
    pub project: Option<(PathBuf, PluginManifest)>,
}

impl CheckSubject {
    /// Finds the plugin that a person has named. If that is a project, it is the plugin that was built last in it. Without a
    /// name it is the project or plugin in the current folder.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the project was not built, or if nothing is named and the current folder has no `plugin.toml`.
    pub fn find(named: Option<&Path>) -> Result<Self, Report> {
        let folder = named.unwrap_or(Path::new("."));
        let usage = |message: String| Report::new(ErrorKind::Usage, message);
        if named.is_none() && !folder.join("plugin.toml").exists() {
            return Err(usage("there is no plugin.toml in the current folder".into())
                .hint("name a plugin: its folder, a component file, or an id from shelly-host plugin list"));
        }
        // A mistake in the manifest is reported when the plugin is opened.
        let manifest = match folder.is_dir() {
            true => PluginManifest::read(folder).ok(),
            false => None,
        };
        let Some(manifest) = manifest.filter(|manifest| !folder.join(&manifest.component).exists()) else {
            return Ok(Self { plugin: folder.into(), project: None });
        };
        let built = folder.join("build").join(&manifest.id);
        if !built.join("plugin.toml").exists() {
            let shown = name(&built.display().to_string());
            return Err(usage(format!("the plugin `{}` was not built: there is no {shown}", manifest.id))
                .hint("build it with shelly-host plugin build"));
        }
        Ok(Self { plugin: built, project: Some((folder.into(), manifest)) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn project_stands_for_the_plugin_that_it_was_built_into() {
        let world = tempfile::tempdir().unwrap();
        let manifest = "id = \"dice\"\ncomponent = \"dice.wasm\"\nkinds = [\"tool\"]\n";
        let folder = world.path();
        fs::write(folder.join("plugin.toml"), manifest).unwrap();
        let refused = CheckSubject::find(Some(folder)).err().unwrap();
        assert!(refused.message.starts_with("the plugin `dice` was not built"), "{refused}");
        fs::create_dir_all(folder.join("build/dice")).unwrap();
        fs::write(folder.join("build/dice/plugin.toml"), manifest).unwrap();
        let of_project = CheckSubject::find(Some(folder)).unwrap();
        assert_eq!((of_project.plugin, of_project.project.is_some()), (folder.join("build/dice"), true));
        fs::write(folder.join("build/dice/dice.wasm"), "").unwrap();
        let built = CheckSubject::find(Some(&folder.join("build/dice"))).unwrap();
        assert_eq!((built.plugin, built.project.is_some()), (folder.join("build/dice"), false));
        let id = CheckSubject::find(Some(Path::new("calculator"))).unwrap();
        assert_eq!((id.plugin, id.project.is_some()), (PathBuf::from("calculator"), false));
    }
}
