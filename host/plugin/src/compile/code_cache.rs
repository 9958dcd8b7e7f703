//! The cache of compiled code on disk. The code is run as it is, so nobody else may write there, and each entry is
//! verified before use.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use sha2::{Digest as _, Sha256};
use wasmtime::{Engine, component::Component};

use super::{cache_dir, compile_config::CompileProfile, kept_functions::project_digest};
use shelly_core::{digest::Sha256Digest, files};

/// A directory of compiled components in files `<component digest>-<settings>.bin`: a SHA-256 hash of the file name and
/// the code, then the code.
///
/// If an entry or the directory cannot be used, that is logged and the component is compiled again.
pub struct CompileCache {
    directory: PathBuf,
    /// The settings of code that the engine takes, those of the code that is stored first: a hash over wasmtime's version, the
    /// target and everything else that compiled code depends on; for code that is made of the functions of a project, with the
    /// digest of the project.
    settings: Vec<String>,
    /// Warnings about entries that had been altered, for a person.
    altered: Mutex<Vec<String>>,
}

const HASH: usize = 32;

impl CompileCache {
    /// Returns the cache of an engine, for code of this profile.
    pub fn new(directory: PathBuf, engine: &Engine, profile: &CompileProfile) -> Self {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let optimised = format!("{:016x}", hasher.finish());
        let settings = match profile {
            CompileProfile::Release => vec![optimised],
            // Optimised code is no worse if it is there. The other way round, slow code must not be taken for it.
            CompileProfile::Development { project } => {
                vec![format!("{optimised}-{}", &project_digest(project).hex()[..16]), optimised]
            }
        };
        Self { directory, settings, altered: Mutex::default() }
    }

    /// Returns the warnings since the last call of this function.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.altered.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn path(&self, digest: Sha256Digest, settings: &str) -> PathBuf {
        self.directory.join(format!("{}-{settings}.bin", digest.hex()))
    }

    /// Returns the compiled component, if there is an intact entry for it.
    pub fn get(&self, engine: &Engine, digest: Sha256Digest) -> Option<Component> {
        if !self.directory.is_dir() {
            return None;
        }
        cache_dir::check(&self.directory)
            .map_err(|error| tracing::warn!(%error, "the compile cache is not used"))
            .ok()?;
        self.settings.iter().find_map(|settings| self.entry(engine, digest, &self.path(digest, settings)))
    }

    /// Returns the compiled component of one entry, if it is there and intact.
    fn entry(&self, engine: &Engine, digest: Sha256Digest, path: &Path) -> Option<Component> {
        let code = match read_verified(path, u64::MAX) {
            Err(AlteredEntry) => {
                let what = format!(
                    "the compiled code of the component {} in {} was altered; compiling the component again; check \
                     who can write to this folder",
                    digest.hex(),
                    path.display()
                );
                self.altered.lock().unwrap_or_else(PoisonError::into_inner).push(what);
                return None;
            }
            Ok(code) => code?,
        };
        // SAFETY: the code is run as it is. `put` of the same user wrote it in a directory that nobody else can write,
        // and its hash shows that it is complete and belongs to this component; `deserialize` checks version and
        // settings again.
        let component = unsafe { Component::deserialize(engine, &code) };
        component.map_err(|error| tracing::warn!(%error, "a cached component is compiled again")).ok()
    }

    /// Stores the code of a component.
    pub fn put(&self, digest: Sha256Digest, code: &[u8]) {
        let kept = cache_dir::make(&self.directory).and_then(|()| {
            write_verified(&self.path(digest, &self.settings[0]), code)?;
            cache_dir::prune(&self.directory)
        });
        if let Err(error) = kept {
            tracing::warn!(%error, directory = %self.directory.display(), "cannot cache a compiled component");
        }
    }
}

/// Returns the hash of an entry. It covers the file name, so that code under the name of another component is refused.
fn hash_of(path: &Path, code: &[u8]) -> [u8; HASH] {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    Sha256::new().chain_update(name).chain_update([0]).chain_update(code).finalize().into()
}

/// The error for an entry whose bytes are not those that were written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AlteredEntry;

/// Returns the code of an entry, which has at most so many bytes; `None` if there is no entry.
pub(super) fn read_verified(path: &Path, most: u64) -> Result<Option<Vec<u8>>, AlteredEntry> {
    let Ok(mut file) = files::open(path) else { return Ok(None) };
    let (mut hash, mut code) = ([0; HASH], Vec::new());
    let read = file.read_exact(&mut hash).and_then(|()| Read::by_ref(&mut file).take(most).read_to_end(&mut code));
    if read.is_err() || hash_of(path, &code) != hash { Err(AlteredEntry) } else { Ok(Some(code)) }
}

/// Writes an entry that [`read_verified`] reads.
pub(super) fn write_verified(path: &Path, code: &[u8]) -> io::Result<()> {
    let directory = path.parent().expect("a file in the cache's directory");
    // A temporary file makes the entry atomic, also if two processes write it.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&hash_of(path, code))?;
    file.write_all(code)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn damaged_compile_cache_entry_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("entry");
        assert_eq!(read_verified(&path, 9), Ok(None));
        write_verified(&path, b"code").unwrap();
        assert_eq!(read_verified(&path, 4), Ok(Some(b"code".to_vec())));
        assert_eq!(read_verified(&path, 3), Err(AlteredEntry), "longer than an entry can be");
        let whole = fs::read(&path).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            assert_eq!(read_verified(&path, 9), Err(AlteredEntry), "cut at {end}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert_eq!(read_verified(&path, 9), Err(AlteredEntry), "damaged at {at}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_directory_that_others_can_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let cache = CompileCache::new(parent.path().join("made"), &engine, &CompileProfile::Release);
        let component = Component::from_binary(&engine, b"\0asm\x0d\0\x01\0").unwrap();
        let digest = Sha256Digest::of(b"x");
        cache.put(digest, &component.serialize().unwrap());
        assert!(cache.get(&engine, digest).is_some(), "made with mode 0700");
        fs::set_permissions(&cache.directory, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(cache.get(&engine, digest).is_none());
    }

    #[test]
    fn code_of_a_project_is_for_its_development_only() {
        let parent = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let of = |profile| CompileCache::new(parent.path().join("made"), &engine, &profile);
        let of_project = |name| of(CompileProfile::Development { project: parent.path().join(name) });
        let (development, other, release) = (of_project("a"), of_project("b"), of(CompileProfile::Release));
        let component = Component::from_binary(&engine, b"\0asm\x0d\0\x01\0").unwrap().serialize().unwrap();
        let (fast, optimised) = (Sha256Digest::of(b"fast"), Sha256Digest::of(b"optimised"));
        development.put(fast, &component);
        release.put(optimised, &component);
        let found = |cache: &CompileCache| [fast, optimised].map(|digest| cache.get(&engine, digest).is_some());
        let all = [found(&development), found(&other), found(&release)];
        assert_eq!(all, [[true, true], [false, true], [false, true]]);
    }
}
