//! Helpers for the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary folder, empty at first and removed on drop.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("shelly-guest-builder-{}-{count}", std::process::id()));
        // A process with the same id may have left the folder behind.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path.canonicalize().expect("a temporary folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file below the folder, and creates missing parent folders.
    pub(crate) fn write(&self, file: impl AsRef<Path>, content: &str) -> PathBuf {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
        fs::write(&path, content).expect("a file");
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
