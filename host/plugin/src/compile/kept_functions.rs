//! The compiled functions of a project's last build, on disk. They become machine code of the host, so no other user may
//! write there, and they are verified before use. Each project has a file of its own, so that a component that attacks the
//! compiler cannot affect another project.

use std::path::{Path, PathBuf};

use super::{
    cache_dir,
    code_cache::{AlteredEntry, read_verified, write_verified},
};
use shelly_core::{digest::Sha256Digest, files, limits};

/// The functions of the last build of a project, in a file of the directory of compiled code.
#[derive(Debug, Clone)]
pub struct KeptFunctions {
    /// `None` without a directory: nothing is kept.
    path: Option<PathBuf>,
}

impl KeptFunctions {
    /// Returns the functions of the project in this folder.
    pub fn of_project(cache: Option<&Path>, project: &Path) -> Self {
        let name = format!("{}-{}.functions", project_digest(project).hex(), env!("CARGO_PKG_VERSION"));
        Self { path: cache.map(|directory| directory.join(name)) }
    }

    /// Returns the functions. Without any, or if they were altered, there are no bytes, and everything is compiled again.
    pub async fn read(&self) -> Vec<u8> {
        let kept = self.clone();
        tokio::task::spawn_blocking(move || kept.read_now()).await.unwrap_or_default()
    }

    /// Replaces the functions. If that fails, more is compiled at the next build.
    pub async fn write(self, functions: Vec<u8>) {
        let written = tokio::task::spawn_blocking(move || self.write_now(&functions)).await;
        if let Err(error) = written {
            tracing::warn!(%error, "cannot keep the compiled functions of a project");
        }
    }

    fn read_now(&self) -> Vec<u8> {
        let Some(path) = &self.path else { return Vec::new() };
        if cache_dir::check(files::folder_of(path)).is_err() {
            return Vec::new();
        }
        match read_verified(path, limits::KEPT_FUNCTIONS_BYTES as u64) {
            Ok(functions) => functions.unwrap_or_default(),
            Err(AlteredEntry) => {
                tracing::warn!(path = %path.display(), "the compiled functions of a project were altered; compiling them again");
                Vec::new()
            }
        }
    }

    fn write_now(&self, functions: &[u8]) {
        let Some(path) = &self.path else { return };
        let directory = files::folder_of(path);
        let written = cache_dir::make(directory).and_then(|()| {
            write_verified(path, functions)?;
            cache_dir::prune(directory)
        });
        if let Err(error) = written {
            tracing::warn!(%error, path = %path.display(), "cannot keep the compiled functions of a project");
        }
    }
}

/// Returns the digest by which the entries of a project in the cache are named.
pub(super) fn project_digest(project: &Path) -> Sha256Digest {
    Sha256Digest::of(files::resolved(project).as_os_str().as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn functions_are_kept_for_each_project() {
        let place = tempfile::tempdir().unwrap();
        let cache = place.path().join("components");
        let of = |project: &str| KeptFunctions::of_project(Some(&cache), &place.path().join(project));
        assert_eq!(of("a").read().await, b"", "the directory is not there yet");
        of("a").write(b"functions".to_vec()).await;
        assert_eq!(of("a").read().await, b"functions");
        assert_eq!(of("b").read().await, b"", "another project has its own");
        let nowhere = KeptFunctions::of_project(None, place.path());
        nowhere.clone().write(b"functions".to_vec()).await;
        assert_eq!(nowhere.read().await, b"");
    }

    #[tokio::test]
    async fn altered_functions_are_not_used() {
        let place = tempfile::tempdir().unwrap();
        let cache = place.path().join("components");
        let of = |project: &str| KeptFunctions::of_project(Some(&cache), &place.path().join(project));
        for project in ["a", "b"] {
            of(project).write(project.as_bytes().to_vec()).await;
        }
        let path = |project| of(project).path.unwrap();
        fs::copy(path("b"), path("a")).unwrap();
        assert_eq!(of("a").read().await, b"", "those of another project");
        let mut bytes = fs::read(path("b")).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path("b"), bytes).unwrap();
        assert_eq!(of("b").read().await, b"");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn functions_that_others_can_write_are_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let cache = place.path().join("components");
        let kept = KeptFunctions::of_project(Some(&cache), place.path());
        kept.clone().write(b"functions".to_vec()).await;
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o770)).unwrap();
        assert_eq!(kept.read().await, b"");
    }
}
