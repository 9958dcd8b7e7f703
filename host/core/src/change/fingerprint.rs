//! Fingerprints of paths, to detect concurrent modification.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ChangeError, change_path::ResolvedChangePath, folder::FolderHandle};
use crate::{
    digest::{self, Sha256Digest},
    error::count,
    files, hex, limits,
};

/// Parses the digest of a file's content as tools know it: 64 hexadecimal digits.
///
/// # Errors
///
/// [`ChangeError::BadDigest`].
pub fn content_digest(text: &str) -> Result<Sha256Digest, ChangeError> {
    let bad = || ChangeError::BadDigest { text: text.chars().take(70).flat_map(char::escape_default).collect() };
    hex::decode(text).map(Sha256Digest).ok_or_else(bad)
}

/// The fingerprint of a path.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) enum PathFingerprint {
    /// The path does not exist.
    #[default]
    Nothing,
    /// A file, a link, or a folder with everything below it.
    There(FingerprintNode),
}

/// A file system object. Modes are recorded for restoring, but ignored in comparisons.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum FingerprintNode {
    File {
        #[serde(with = "digest::digits")]
        digest: Sha256Digest,
        bytes: u64,
        mode: u32,
    },
    Link {
        to: String,
    },
    /// A folder with its entries, sorted by name.
    Folder {
        mode: u32,
        entries: Vec<(String, FingerprintNode)>,
    },
}

impl PartialEq for FingerprintNode {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { digest: one, .. }, Self::File { digest: two, .. }) => one == two,
            (Self::Link { to: one }, Self::Link { to: two }) => one == two,
            (Self::Folder { entries: one, .. }, Self::Folder { entries: two, .. }) => one == two,
            _ => false,
        }
    }
}

impl PartialEq for PathFingerprint {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nothing, Self::Nothing) => true,
            (Self::There(one), Self::There(two)) => one == two,
            _ => false,
        }
    }
}

impl PathFingerprint {
    /// Returns the fingerprint of a file with this content and mode.
    pub fn of_file(content: &[u8], mode: u32) -> Self {
        Self::There(FingerprintNode::File { digest: Sha256Digest::of(content), bytes: content.len() as u64, mode })
    }

    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Returns the mode of the file that is written here: a file that is there keeps its own.
    pub fn mode_of_new_content(&self) -> u32 {
        match self {
            Self::There(FingerprintNode::File { mode, .. }) => *mode,
            _ => files::new_file_mode(),
        }
    }
}

impl FingerprintNode {
    /// Returns the kind of the object in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } => "a file",
            Self::Link { .. } => "a link",
            Self::Folder { .. } => "a folder",
        }
    }

    /// Describes the size of a folder.
    pub fn holding(&self) -> String {
        let entries = count(self.walk().len() as u64 - 1, "entry", "entries");
        format!("a folder with {entries}, {}", count(self.bytes(), "byte", "bytes"))
    }

    /// Returns the object and all descendants with their relative paths, itself first.
    pub fn walk(&self) -> Vec<(String, &Self)> {
        let mut all = vec![(String::new(), self)];
        let mut at = 0;
        while at < all.len() {
            if let (path, Self::Folder { entries, .. }) = &all[at] {
                let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
                let entries: Vec<_> = entries.iter().map(|(name, node)| (below(name), node)).collect();
                all.extend(entries);
            }
            at += 1;
        }
        all
    }

    /// Returns the total bytes of all files in it.
    pub fn bytes(&self) -> u64 {
        let of = |node: &Self| if let Self::File { bytes, .. } = node { *bytes } else { 0 };
        self.walk().into_iter().map(|(_, node)| of(node)).sum()
    }
}

/// The remaining number of entries and bytes that may be examined.
#[derive(Debug)]
pub(super) struct FingerprintBudget {
    entries: usize,
    bytes: u64,
}

impl Default for FingerprintBudget {
    fn default() -> Self {
        Self { entries: limits::CHANGED_ENTRIES, bytes: limits::CHANGED_TREE_BYTES }
    }
}

/// Returns the fingerprint of a path.
pub(super) fn state(spot: &ResolvedChangePath) -> Result<PathFingerprint, ChangeError> {
    state_within(spot, &mut FingerprintBudget::default())
}

/// Returns the fingerprint of a path, and deducts its size from a shared budget.
pub(super) fn state_within(
    spot: &ResolvedChangePath,
    left: &mut FingerprintBudget,
) -> Result<PathFingerprint, ChangeError> {
    let (folder, name) = spot.parts().map_err(ChangeError::io(&spot.shown, "examined"))?;
    let folder = match FolderHandle::open(folder) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PathFingerprint::Nothing),
        Err(error) => return Err(ChangeError::io(&spot.shown, "examined")(error)),
    };
    node(&folder.at(name), &spot.shown, left, limits::CHANGED_DEPTH)
}

/// Returns the fingerprint of a name in an open folder.
pub(super) fn state_in(folder: &FolderHandle, name: &str, shown: &str) -> Result<PathFingerprint, ChangeError> {
    node(&folder.at(name), shown, &mut FingerprintBudget::default(), limits::CHANGED_DEPTH)
}

fn node(path: &Path, shown: &str, left: &mut FingerprintBudget, deep: u32) -> Result<PathFingerprint, ChangeError> {
    let unreadable = ChangeError::io(shown, "examined");
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PathFingerprint::Nothing),
        Err(error) => return Err(unreadable(error)),
    };
    let too_large = |what: String, most: String| ChangeError::TooLarge { shown: shown.to_owned(), what, most };
    left.entries = left.entries.checked_sub(1).ok_or_else(|| {
        let most = limits::CHANGED_ENTRIES;
        too_large(format!("more than {most} entries"), format!("{most}"))
    })?;
    let kind = found.file_type();
    let not_unicode = || unreadable(io::Error::other("a name is not valid Unicode"));
    if kind.is_symlink() {
        let to = fs::read_link(path).map_err(&unreadable)?;
        return Ok(PathFingerprint::There(FingerprintNode::Link {
            to: to.to_str().ok_or_else(not_unicode)?.to_owned(),
        }));
    }
    if kind.is_file() {
        let most = || {
            let most = limits::CHANGED_TREE_BYTES;
            too_large(format!("more than {most} bytes"), format!("{most}"))
        };
        left.bytes = left.bytes.checked_sub(found.len()).ok_or_else(most)?;
        let (digest, bytes) = digest_of(path, found.len()).map_err(&unreadable)?;
        return Ok(PathFingerprint::There(FingerprintNode::File { digest, bytes, mode: mode_of(&found) }));
    }
    if !kind.is_dir() {
        let (shown, is) = (shown.to_owned(), "a device, a pipe or a socket");
        return Err(ChangeError::WrongKind { shown, is, wanted: "a file or a folder" });
    }
    let Some(deeper) = deep.checked_sub(1) else {
        let most = limits::CHANGED_DEPTH;
        return Err(too_large(format!("more than {most} nested folders"), format!("{most}")));
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(&unreadable)? {
        let name = entry.map_err(&unreadable)?.file_name();
        let name = name.to_str().ok_or_else(not_unicode)?;
        // An entry that was removed since it was listed is skipped.
        if let PathFingerprint::There(entry) = node(&path.join(name), shown, left, deeper)? {
            entries.push((name.to_owned(), entry));
        }
    }
    entries.sort_by(|(one, _), (two, _)| one.cmp(two));
    Ok(PathFingerprint::There(FingerprintNode::Folder { mode: mode_of(&found), entries }))
}

/// Returns the digest of a file and the number of bytes read. If the file grows meanwhile, at most one byte beyond `bytes`
/// is read.
fn digest_of(path: &Path, bytes: u64) -> io::Result<(Sha256Digest, u64)> {
    let mut file = super::folder::open_file(path)?.take(bytes + 1);
    let (mut hash, mut read, mut buffer) = (Sha256::new(), 0, vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((hash.into(), read)),
            more => {
                hash.update(&buffer[..more]);
                read += more as u64;
            }
        }
    }
}

/// Returns the permission bits, without set-user-ID, set-group-ID and sticky bits.
#[cfg(unix)]
pub(super) fn mode_of(found: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o777
}

#[cfg(not(unix))]
pub(super) fn mode_of(found: &fs::Metadata) -> u32 {
    if found.permissions().readonly() { 0o400 } else { 0o600 }
}
