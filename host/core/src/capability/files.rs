use std::{
    borrow::Cow,
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// The access mode of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileAccess {
    /// Read only.
    Read,
    /// Read and write.
    Write,
}

/// A set of folders with everything below them, and their access modes: a lattice. An entry that another one already implies
/// is removed, so that equal permissions compare equal.
///
/// Paths are compared as written, component by component: resolve a path that may contain `..` or links before you build a
/// grant from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FileGrant(BTreeMap<PathBuf, FileAccess>);

impl FileGrant {
    /// Returns the grant of every file.
    pub fn everywhere(access: FileAccess) -> Self {
        Self([(PathBuf::new(), access)].into())
    }

    /// Returns `true` if the grant allows nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the folders, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, FileAccess)> {
        self.0.iter().map(|(path, access)| (path.as_path(), *access))
    }

    /// Returns the access mode of `path`; `None` if access is not allowed.
    pub fn access(&self, path: &Path) -> Option<FileAccess> {
        path.ancestors().chain([Path::new("")]).filter_map(|path| self.0.get(path)).max().copied()
    }

    /// Returns the part of the grant at and below `path`.
    pub fn within(&self, path: &Path) -> Self {
        self.meet(&Self([(path.into(), FileAccess::Write)].into()))
    }

    /// Returns what both allow.
    pub fn meet(&self, other: &Self) -> Self {
        let shared = |(one, access): (&Path, FileAccess), (another, most): (&Path, FileAccess)| {
            let deeper = if one.starts_with(another) { one } else { another };
            let nested = one.starts_with(another) || another.starts_with(one);
            nested.then(|| (deeper.to_owned(), access.min(most)))
        };
        self.iter().flat_map(|one| other.iter().filter_map(move |another| shared(one, another))).collect()
    }

    /// Returns what at least one of them allows.
    pub fn join(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).map(|(path, access)| (path.to_owned(), access)).collect()
    }
}

/// Serializes as a list of `path` and `mode`, as in the config.
impl Serialize for FileGrant {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct FileGrantEntry<'a> {
            path: Cow<'a, str>,
            mode: FileAccess,
        }
        to.collect_seq(self.iter().map(|(path, mode)| FileGrantEntry { path: path.to_string_lossy(), mode }))
    }
}

impl FromIterator<(PathBuf, FileAccess)> for FileGrant {
    fn from_iter<I: IntoIterator<Item = (PathBuf, FileAccess)>>(folders: I) -> Self {
        let mut all = Self::default();
        for (path, access) in folders {
            let most = all.0.entry(path).or_insert(access);
            *most = access.max(*most);
        }
        let is_needed = |path: &Path, access: FileAccess| {
            let above = path.parent().and_then(|parent| all.access(parent));
            // The empty path is the parent of every path without a parent.
            let above = above.max(all.0.get(Path::new("")).copied().filter(|_| !path.as_os_str().is_empty()));
            above.is_none_or(|above| above < access)
        };
        Self(all.iter().filter(|(path, access)| is_needed(path, *access)).map(|(p, a)| (p.to_owned(), a)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folders: &[(&str, FileAccess)]) -> FileGrant {
        folders.iter().map(|(path, access)| (path.into(), *access)).collect()
    }

    #[test]
    fn folder_grant_includes_descendants() {
        use FileAccess::{Read, Write};
        let all = files(&[("/a", Read), ("/a/b", Write), ("/c", Write), ("/c/d", Read)]);
        assert_eq!(all, files(&[("/c", Write), ("/a/b", Write), ("/a", Read)]), "one entry says nothing new");
        for (path, access) in [
            ("/a", Some(Read)),
            ("/a/x", Some(Read)),
            ("/a/b/c/d", Some(Write)),
            ("/ab", None),
            ("/", None),
            ("/c/d", Some(Write)),
        ] {
            assert_eq!(all.access(Path::new(path)), access, "{path}");
        }
        assert_eq!(all.within(Path::new("/a")), files(&[("/a", Read), ("/a/b", Write)]));
        assert_eq!(all.within(Path::new("/")), all);
        assert_eq!(all.within(Path::new("/c/e")), files(&[("/c/e", Write)]));
        assert!(all.within(Path::new("/x")).is_empty());
        assert_eq!(FileGrant::everywhere(Write).meet(&all), all);
        assert_eq!(FileGrant::everywhere(Read).join(&files(&[("/a", Read)])), FileGrant::everywhere(Read));
    }
}
