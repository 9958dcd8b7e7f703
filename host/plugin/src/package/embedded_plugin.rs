//! A plugin that was built into the program.

use std::{
    fmt,
    io::{self, Read},
};

use flate2::bufread::ZlibDecoder;
use shelly_core::limits;

/// A plugin that was built into the program.
pub struct EmbeddedPlugin {
    /// The id in its manifest.
    pub id: &'static str,
    /// The text of its `plugin.toml`.
    pub manifest: &'static str,
    /// Its component, compressed with zlib.
    pub compressed: &'static [u8],
    /// The size of the component in bytes.
    pub size: usize,
}

impl EmbeddedPlugin {
    /// Decompresses the component.
    ///
    /// # Errors
    ///
    /// An error if this is not `size` bytes: the program is damaged.
    pub fn component(&self) -> io::Result<Vec<u8>> {
        let damaged = |why: String| io::Error::other(format!("{why}; install the program again"));
        // A damaged `size` must not reserve more than a component may have.
        let most = self.size.min(limits::COMPONENT_BYTES as usize);
        let mut bytes = Vec::with_capacity(most);
        // One byte more than expected tells that there is more.
        let mut decoder = ZlibDecoder::new(self.compressed).take(most as u64 + 1);
        decoder.read_to_end(&mut bytes).map_err(|error| damaged(error.to_string()))?;
        match bytes.len() == self.size {
            true => Ok(bytes),
            false => Err(damaged(format!("it should have {} bytes", self.size))),
        }
    }
}

/// Shows no bytes.
impl fmt::Debug for EmbeddedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedPlugin").field("id", &self.id).field("size", &self.size).finish_non_exhaustive()
    }
}

/// Writes the id.
impl fmt::Display for EmbeddedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}
