use wasmtime_wasi::filesystem::WasiFilesystemCtx;

use super::filesystem::{FileOpenLimiter, NonblockingFiles};

/// The opened folders of a plugin.
#[derive(Clone, Default)]
pub struct PreopenedFolders {
    /// The folders as wasmtime-wasi has them.
    pub context: WasiFilesystemCtx,
    /// File operations in the folders that complete without waiting.
    pub at_once: NonblockingFiles,
    /// Limits concurrent opens; shared by all calls of the plugin.
    pub opening: FileOpenLimiter,
}
