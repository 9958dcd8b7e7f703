//! A SQLite database file, of which only the pages that a query needs are read.

use std::{cell::RefCell, collections::BTreeMap};

use graphitesql::{
    Connection, Error as SqlError, Result as SqlResult,
    vfs::{File, OpenFlags, Vfs},
};
use shelly_plugin::Error;

use crate::source::{Bytes, Folder};

/// The size of the blocks in which a file is read. Larger blocks than pages need fewer calls of the host.
const BLOCK: u64 = 64 * 1024;

/// The maximum number of blocks that are cached.
const MAX_BLOCKS: usize = 256;

pub(crate) fn open<F: Folder>(path: &str, folder: F) -> Result<Connection, Error> {
    // This error for a missing or ungranted file is clearer than the database's.
    folder.open(path)?;
    Connection::open_readonly_vfs(&ReadOnly(folder), path)
        .map_err(|cause| Error::Invalid(format!("`{path}` is not a readable SQLite database: {cause}")))
}

struct ReadOnly<F>(F);

impl<F: Folder> Vfs for ReadOnly<F> {
    fn open(&self, path: &str, flags: OpenFlags) -> SqlResult<Box<dyn File>> {
        if flags.write || flags.create {
            return Err(read_only());
        }
        let bytes = self.0.open(path).map_err(io)?;
        Ok(Box::new(Blocks { size: bytes.size().map_err(io)?, bytes, kept: RefCell::default() }))
    }

    fn delete(&self, _path: &str) -> SqlResult<()> {
        Err(read_only())
    }

    fn exists(&self, path: &str) -> SqlResult<bool> {
        Ok(self.0.exists(path))
    }
}

/// A file with a cache of its blocks.
struct Blocks<B> {
    bytes: B,
    size: u64,
    kept: RefCell<BTreeMap<u64, Vec<u8>>>,
}

impl<B: Bytes> Blocks<B> {
    /// Reads the block with this index, which may be short at the end of the file.
    fn read(&self, block: u64) -> SqlResult<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < BLOCK {
            let offset = block * BLOCK + bytes.len() as u64;
            let piece = self.bytes.read_at(offset, BLOCK - bytes.len() as u64).map_err(io)?;
            if piece.is_empty() {
                break;
            }
            bytes.extend(piece);
        }
        Ok(bytes)
    }
}

impl<B: Bytes> File for Blocks<B> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> SqlResult<()> {
        let mut kept = self.kept.borrow_mut();
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let block = at / BLOCK;
            if !kept.contains_key(&block) {
                if kept.len() >= MAX_BLOCKS {
                    kept.clear();
                }
                kept.insert(block, self.read(block)?);
            }
            let rest = kept.get(&block).and_then(|bytes| bytes.get((at % BLOCK) as usize..)).unwrap_or_default();
            if rest.is_empty() {
                return Err(SqlError::Io(format!("the file ends before byte {at}")));
            }
            let count = rest.len().min(buffer.len() - done);
            buffer[done..done + count].copy_from_slice(&rest[..count]);
            done += count;
        }
        Ok(())
    }

    fn write_all_at(&mut self, _buffer: &[u8], _offset: u64) -> SqlResult<()> {
        Err(read_only())
    }

    fn truncate(&mut self, _size: u64) -> SqlResult<()> {
        Err(read_only())
    }

    fn sync(&mut self) -> SqlResult<()> {
        Ok(())
    }

    fn size(&self) -> SqlResult<u64> {
        Ok(self.size)
    }
}

fn read_only() -> SqlError {
    SqlError::CantOpen("the file is opened read-only".to_owned())
}

fn io(error: Error) -> SqlError {
    SqlError::Io(error.message().to_owned())
}
