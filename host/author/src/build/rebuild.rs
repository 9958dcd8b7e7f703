//! Two builds of one project from nothing, to see if they make the same component.

use std::fs;

use shelly_core::{digest::Sha256Digest, limits};

use super::plugin_build::{PluginBuild, read};
use crate::{
    author_error::AuthorError, build_cancellation::BuildCancellation, plugin_project::PluginProject,
    toolchain::BuildEnvironment,
};

/// Builds a project twice, each time into a folder that was empty, and returns the digests of the two components. The plugin
/// that was built last stays as it is. The folder is the same for both builds: compilers write paths into what they make.
///
/// # Errors
///
/// [`AuthorError`].
pub fn rebuild_twice(
    project: &PluginProject,
    environment: &BuildEnvironment,
    is_release: bool,
    cancellation: &BuildCancellation,
    show: &mut dyn FnMut(&str),
) -> Result<[Sha256Digest; 2], AuthorError> {
    let folder = project.work().join("rebuild");
    let apart = project.clone().built_into(folder.clone());
    let remove = || match folder.exists() {
        true => fs::remove_dir_all(&folder).map_err(AuthorError::file("remove", &folder)),
        false => Ok(()),
    };
    let mut build = || -> Result<Sha256Digest, AuthorError> {
        remove()?;
        let built = PluginBuild::new(&apart, environment, is_release, &mut *show).cancelled_by(cancellation).run()?;
        let component = read(&built.staged.join(&apart.settings.component), limits::COMPONENT_BYTES)?;
        Ok(Sha256Digest::of(&component))
    };
    let digests = [build()?, build()?];
    remove()?;
    Ok(digests)
}
