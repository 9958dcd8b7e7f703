//! Access to the bytes of files: in granted folders, or in memory for unit tests.

use std::io;

use shelly_plugin::{
    Error,
    fs::{self, File},
};

/// A source of bytes that can be read at any offset.
pub(crate) trait Bytes {
    fn size(&self) -> Result<u64, Error>;
    /// Reads at most `max` bytes from `offset`; empty only at the end.
    fn read_at(&self, offset: u64, max: u64) -> Result<Vec<u8>, Error>;
}

impl Bytes for File {
    fn size(&self) -> Result<u64, Error> {
        Ok(self.metadata()?.size)
    }

    fn read_at(&self, offset: u64, max: u64) -> Result<Vec<u8>, Error> {
        File::read_at(self, offset, max)
    }
}

/// A place where files are found by their paths.
pub(crate) trait Folder {
    type File: Bytes + 'static;
    fn open(&self, path: &str) -> Result<Self::File, Error>;
    fn exists(&self, path: &str) -> bool;
}

/// The granted folders.
pub(crate) struct Files;

impl Folder for Files {
    type File = File;

    fn open(&self, path: &str) -> Result<File, Error> {
        File::open(path)
    }

    fn exists(&self, path: &str) -> bool {
        fs::metadata(path).is_ok()
    }
}

/// A reader of a file from its beginning to its end.
pub(crate) struct Reader<B> {
    bytes: B,
    offset: u64,
}

impl Reader<File> {
    pub(crate) fn open(path: &str) -> Result<Self, Error> {
        Ok(Reader::new(File::open(path)?))
    }
}

impl<B: Bytes> Reader<B> {
    pub(crate) fn new(bytes: B) -> Self {
        Reader { bytes, offset: 0 }
    }
}

impl<B: Bytes> io::Read for Reader<B> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self
            .bytes
            .read_at(self.offset, buffer.len() as u64)
            .map_err(|error| io::Error::other(error.message().to_owned()))?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }
}

/// A file in memory, for unit tests.
#[cfg(test)]
impl Bytes for Vec<u8> {
    fn size(&self) -> Result<u64, Error> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, max: u64) -> Result<Vec<u8>, Error> {
        let rest = self.get(offset as usize..).unwrap_or_default();
        Ok(rest[..rest.len().min(max as usize)].to_vec())
    }
}
