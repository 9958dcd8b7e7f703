//! Files in the folders that the host granted.
//!
//! Paths are relative, with `/` between names. A folder that was granted under the name `.` contains all of them;
//! otherwise a path begins with a folder's name, which may be its absolute path. The host refuses every path that leads
//! out of a granted folder, be it by `..` or by a link.

use wasip2::filesystem::{
    preopens,
    types::{Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, OpenFlags, PathFlags},
};

use crate::{near, types::Error};

/// The number of characters of a wrong path that an error repeats.
const SHOWN: usize = 200;

/// The number of names that are compared when looking for a similar one.
const LOOKED_THROUGH: usize = 10_000;

/// The type of a file system entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link that was not followed.
    Link,
    /// Anything else, such as a pipe or a device.
    Other,
}

/// Facts about a file or folder that are known without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// The type of the entry.
    pub kind: Kind,
    /// The size in bytes; only meaningful for a file.
    pub size: u64,
    /// The time of the last change of its content, in whole seconds since 1970-01-01T00:00Z, if known.
    pub modified: Option<u64>,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, without a path.
    pub name: String,
    /// The type of the entry. A link is not followed.
    pub kind: Kind,
}

/// An open folder, for visiting many folders: entries of an open folder are reached without resolving its path again.
/// Links in it are not followed.
#[derive(Debug)]
pub struct Folder {
    descriptor: Descriptor,
    path: String,
}

impl Folder {
    /// Opens a folder.
    pub fn open(path: &str) -> Result<Folder, Error> {
        let descriptor = open(path, OpenFlags::DIRECTORY, DescriptorFlags::READ)?;
        Ok(Folder { descriptor, path: path.to_owned() })
    }

    /// Returns at most `max` of the folder's entries, sorted by name, and `true` if there are more. If there are more,
    /// the returned entries are any of the folder's, not the first ones. Names that are not Unicode count as more: no
    /// function here can express them.
    pub fn entries(&self, max: usize) -> Result<(Vec<Entry>, bool), Error> {
        let (mut entries, mut more) = (Vec::new(), false);
        let stream = self.descriptor.read_directory().map_err(|code| explain(code, &self.path))?;
        loop {
            let entry = match stream.read_directory_entry() {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                // Skips a name that is not Unicode; the remaining entries may have valid names.
                Err(ErrorCode::IllegalByteSequence) => {
                    more = true;
                    continue;
                }
                Err(code) => return Err(explain(code, &self.path)),
            };
            if entries.len() == max {
                more = true;
                break;
            }
            entries.push(Entry { name: entry.name, kind: kind_of(entry.type_) });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((entries, more))
    }

    /// Returns the facts about the entry of this name in the folder. A link is not followed.
    pub fn metadata(&self, name: &str) -> Result<Metadata, Error> {
        let stat = self.descriptor.stat_at(PathFlags::empty(), name);
        Ok(metadata_of(&stat.map_err(|code| explain(code, &self.path_of(name)))?))
    }

    /// Opens the subfolder of this name.
    pub fn folder(&self, name: &str) -> Result<Folder, Error> {
        let (descriptor, path) = self.open_in(name, OpenFlags::DIRECTORY)?;
        Ok(Folder { descriptor, path })
    }

    /// Opens the file of this name in the folder. Call this only for entries that [`entries`](Self::entries) reports as
    /// files.
    pub fn file(&self, name: &str) -> Result<File, Error> {
        let (descriptor, path) = self.open_in(name, OpenFlags::empty())?;
        Ok(File { descriptor, path })
    }

    fn open_in(&self, name: &str, flags: OpenFlags) -> Result<(Descriptor, String), Error> {
        let path = self.path_of(name);
        match self.descriptor.open_at(PathFlags::empty(), name, flags, DescriptorFlags::READ) {
            Ok(descriptor) => Ok((descriptor, path)),
            Err(code) => Err(explain(code, &path)),
        }
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path.trim_end_matches('/'))
    }
}

/// An open file.
#[derive(Debug)]
pub struct File {
    descriptor: Descriptor,
    path: String,
}

impl File {
    /// Opens a file for reading.
    pub fn open(path: &str) -> Result<File, Error> {
        // Opening a pipe blocks until somebody writes to it, so the type is checked first.
        must_be_file(metadata(path)?, path)?;
        let descriptor = open(path, OpenFlags::empty(), DescriptorFlags::READ)?;
        Ok(File { descriptor, path: path.to_owned() })
    }

    /// Returns the facts about this file.
    pub fn metadata(&self) -> Result<Metadata, Error> {
        let stat = self.descriptor.stat().map_err(|code| explain(code, &self.path))?;
        Ok(metadata_of(&stat))
    }

    /// Reads at most `max` bytes from `offset`. The host returns up to 64 KiB at once. The result is empty only at the
    /// end of the file, or if `max` is 0.
    pub fn read_at(&self, offset: u64, max: u64) -> Result<Vec<u8>, Error> {
        let (bytes, _end) = self.descriptor.read(max, offset).map_err(|code| explain(code, &self.path))?;
        Ok(bytes)
    }
}

/// Returns the names of the granted folders.
pub fn folders() -> Vec<String> {
    granted().into_iter().map(|(_, name)| name).collect()
}

/// Reads a whole file of at most `max` bytes. A larger file is [`Error::TooLarge`].
pub fn read(path: &str, max: u64) -> Result<Vec<u8>, Error> {
    let file = File::open(path)?;
    let size = file.metadata()?.size;
    let too_large = |size| Error::TooLarge(format!("`{path}` has {size} bytes, the maximum to read at once is {max}"));
    if size > max {
        return Err(too_large(size));
    }
    let mut bytes = Vec::with_capacity(size as usize + 1);
    // Reading one byte more than allowed detects a file that has grown since.
    while bytes.len() as u64 <= max {
        let chunk = file.read_at(bytes.len() as u64, max + 1 - bytes.len() as u64)?;
        if chunk.is_empty() {
            return Ok(bytes);
        }
        bytes.extend(chunk);
    }
    Err(too_large(bytes.len() as u64))
}

/// Reads a whole UTF-8 file of at most `max` bytes.
pub fn read_to_string(path: &str, max: u64) -> Result<String, Error> {
    String::from_utf8(read(path, max)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::Invalid(format!("`{path}` is not text: byte {at} is not UTF-8"))
    })
}

/// Returns at most `max` of a folder's entries, sorted by name, and `true` if there are more, like [`Folder::entries`].
pub fn read_dir(path: &str, max: usize) -> Result<(Vec<Entry>, bool), Error> {
    if !is_above_all_folders(path) {
        return Folder::open(path)?.entries(max);
    }
    let mut names = folders();
    names.sort();
    let more = names.len() > max;
    Ok((names.into_iter().take(max).map(|name| Entry { name, kind: Kind::Folder }).collect(), more))
}

/// Returns the facts about a file or folder. Links are followed.
pub fn metadata(path: &str) -> Result<Metadata, Error> {
    stat(path, PathFlags::SYMLINK_FOLLOW)
}

/// Returns the facts about a file, folder or link. A link at the end of the path is not followed.
pub fn link_metadata(path: &str) -> Result<Metadata, Error> {
    stat(path, PathFlags::empty())
}

/// Returns the target of a link, as it is stored in the link.
pub fn read_link(path: &str) -> Result<String, Error> {
    let (folder, inner) = locate(path)?;
    folder.readlink_at(&inner).map_err(|code| explain(code, path))
}

fn stat(path: &str, flags: PathFlags) -> Result<Metadata, Error> {
    if is_above_all_folders(path) {
        return Ok(Metadata { kind: Kind::Folder, size: 0, modified: None });
    }
    let (folder, inner) = locate(path)?;
    let stat = folder.stat_at(flags, &inner).map_err(|code| explain(code, path))?;
    Ok(metadata_of(&stat))
}

/// Normalizes the path that a tool received, for the functions of this module. Removes empty names and `.`; `..` removes
/// the name before it. If `root` is given, the absolute path of a folder that was granted under that path, a relative
/// path is taken from there.
///
/// ```
/// use shelly_plugin::fs;
///
/// assert_eq!(fs::path_below(Some("/home/ann"), "docs/./../a.txt").unwrap(), "/home/ann/a.txt");
/// assert_eq!(fs::path_below(Some("/home/ann"), "/etc/hosts").unwrap(), "/etc/hosts");
/// assert_eq!(fs::path_below(None, "./docs//a.txt").unwrap(), "docs/a.txt");
/// ```
pub fn path_below(root: Option<&str>, path: &str) -> Result<String, Error> {
    let invalid = |why: &str| Error::Invalid(format!("`{}` {why}", crate::text::short(path, SHOWN)));
    if path.is_empty() {
        return Err(invalid("is not a path; use `.` for the top folder"));
    }
    if path.contains('\0') {
        return Err(invalid("has a zero byte, which no path can have"));
    }
    if path == "~" || path.starts_with("~/") {
        return Err(invalid("begins with `~`, which only shells expand; write the full path"));
    }
    let absolute = path.starts_with('/') || root.is_some();
    let mut names = Vec::new();
    if let Some(root) = root.filter(|_| !path.starts_with('/')) {
        names.extend(segments(root));
    }
    for name in segments(path) {
        match name {
            ".." if absolute => drop(names.pop()),
            ".." if names.last().is_some_and(|last| *last != "..") => drop(names.pop()),
            name => names.push(name),
        }
    }
    let joined = names.join("/");
    Ok(match (absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    })
}

/// Returns `true` if an absolute path lies in none of the granted folders, and some folders were granted under absolute
/// paths. In that case the plugin can have a person asked for it ([`Reply::needs_folder`](crate::Reply::needs_folder)).
pub fn is_outside(path: &str) -> bool {
    lies_outside(path, &folders())
}

fn lies_outside(path: &str, folders: &[String]) -> bool {
    let (mut absolute, wanted) = (folders.iter().filter(|name| name.starts_with('/')).peekable(), segments(path));
    path.starts_with('/') && absolute.peek().is_some() && !absolute.any(|name| wanted.starts_with(&segments(name)))
}

/// Adds similar names in the same folder to a [`NotFound`](Error::NotFound) error; returns other errors unchanged.
pub fn with_near_names(error: Error, path: &str) -> Error {
    let Error::NotFound(cause) = error else { return error };
    let (folder, name) = match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
        None => (".", path),
    };
    let Ok((entries, _)) = read_dir(folder, LOOKED_THROUGH) else {
        return Error::NotFound(cause);
    };
    let near = near::names(name, entries.iter().map(|entry| entry.name.as_str()));
    if near.is_empty() {
        return Error::NotFound(format!("{cause}; list the folder `{folder}` to see its entries"));
    }
    let near: Vec<String> = near
        .iter()
        .map(|name| match folder {
            "." => format!("`{name}`"),
            folder => format!("`{}/{name}`", folder.trim_end_matches('/')),
        })
        .collect();
    Error::NotFound(format!("{cause}; similar paths: {}", near.join(", ")))
}

/// Writes a whole file; creates it if it does not exist. Needs a folder that was granted for writing.
pub fn write(path: &str, bytes: &[u8]) -> Result<(), Error> {
    let (folder, inner) = locate(path)?;
    let explain = |code| match code {
        ErrorCode::NotPermitted => Error::Denied(format!("`{path}` is in no folder granted for writing")),
        code => explain(code, path),
    };
    match metadata(path) {
        Ok(there) => must_be_file(there, path)?,
        Err(Error::NotFound(_)) => {}
        Err(error) => return Err(error),
    }
    let flags = OpenFlags::CREATE | OpenFlags::TRUNCATE;
    let file = folder.open_at(PathFlags::SYMLINK_FOLLOW, &inner, flags, DescriptorFlags::WRITE).map_err(explain)?;
    let mut written = 0;
    while written < bytes.len() {
        let count = file.write(&bytes[written..], written as u64).map_err(explain)?;
        if count == 0 {
            return Err(Error::other(format!("`{path}`: no more bytes can be written")));
        }
        written += count as usize;
    }
    Ok(())
}

fn must_be_file(found: Metadata, path: &str) -> Result<(), Error> {
    match found.kind {
        Kind::File => Ok(()),
        Kind::Folder => Err(Error::Invalid(format!("`{path}` is a folder, not a file"))),
        Kind::Link | Kind::Other => Err(Error::Invalid(format!("`{path}` is neither a file nor a folder"))),
    }
}

fn granted() -> Vec<(Descriptor, String)> {
    if cfg!(target_arch = "wasm32") { preopens::get_directories() } else { Vec::new() }
}

fn open(path: &str, flags: OpenFlags, access: DescriptorFlags) -> Result<Descriptor, Error> {
    let (folder, inner) = locate(path)?;
    folder.open_at(PathFlags::SYMLINK_FOLLOW, &inner, flags, access).map_err(|code| explain(code, path))
}

/// Returns the granted folder that contains `path`, and the path within it.
fn locate(path: &str) -> Result<(Descriptor, String), Error> {
    let mut granted = granted();
    let names: Vec<&str> = granted.iter().map(|(_, name)| name.as_str()).collect();
    let (index, inner) = resolve(path, &names)?;
    Ok((granted.swap_remove(index).0, inner))
}

/// Returns `true` if `path` is the directory above the folders that were granted under relative names, and itself in none
/// of them. It can be listed ([`read_dir`]) but not opened.
pub fn is_above_all_folders(path: &str) -> bool {
    let names = folders();
    !names.is_empty() && segments(path).is_empty() && !path.starts_with('/') && !names.iter().any(|name| is_root(name))
}

fn resolve(path: &str, names: &[&str]) -> Result<(usize, String), Error> {
    if names.is_empty() {
        return Err(Error::Denied("no folder was granted to this plugin".into()));
    }
    let wanted = segments(path);
    let absolute = path.starts_with('/');
    let best = names
        .iter()
        .enumerate()
        .filter(|(_, name)| name.starts_with('/') == absolute && wanted.starts_with(&segments(name)))
        .max_by_key(|(_, name)| segments(name).len());
    let Some((index, name)) = best else {
        let list = quoted(names);
        return Err(match absolute {
            true => Error::Invalid(format!("`{path}` is absolute; use a path relative to the granted folders: {list}")),
            false => Error::NotFound(format!("`{path}` is in none of the granted folders: {list}")),
        });
    };
    let inner = &wanted[segments(name).len()..];
    Ok((index, if inner.is_empty() { ".".to_owned() } else { inner.join("/") }))
}

/// Splits a path into its names, without empty names and `.`.
fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect()
}

fn is_root(name: &str) -> bool {
    segments(name).is_empty() && !name.starts_with('/')
}

fn quoted(names: &[impl AsRef<str>]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    names.join(", ")
}

fn kind_of(kind: DescriptorType) -> Kind {
    match kind {
        DescriptorType::RegularFile => Kind::File,
        DescriptorType::Directory => Kind::Folder,
        DescriptorType::SymbolicLink => Kind::Link,
        _ => Kind::Other,
    }
}

fn metadata_of(stat: &DescriptorStat) -> Metadata {
    let modified = stat.data_modification_timestamp.map(|time| time.seconds);
    Metadata { kind: kind_of(stat.type_), size: stat.size, modified }
}

fn explain(code: ErrorCode, path: &str) -> Error {
    match code {
        ErrorCode::NoEntry => Error::NotFound(format!("`{path}` does not exist")),
        ErrorCode::NotDirectory => Error::Invalid(format!("`{path}` is not a folder, or leads through a file")),
        ErrorCode::IsDirectory => Error::Invalid(format!("`{path}` is a folder, not a file")),
        ErrorCode::NotPermitted => {
            let folders = folders();
            Error::Denied(format!("`{path}` is not allowed; use a path in the granted folders: {}", quoted(&folders)))
        }
        ErrorCode::Access | ErrorCode::ReadOnly => Error::Denied(format!("`{path}`: permission denied")),
        ErrorCode::Loop => Error::Invalid(format!("`{path}` is a link that leads back to itself")),
        ErrorCode::NameTooLong => Error::Invalid(format!("`{path}` is longer than a path can be")),
        code => Error::other(format!("`{path}`: {}", code.message())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_resolves_to_the_longest_matching_folder() {
        let cases = [
            ("a.txt", &["."][..], Ok((0, "a.txt"))),
            ("./a//b.txt", &["."], Ok((0, "a/b.txt"))),
            ("", &["."], Ok((0, "."))),
            (".", &["."], Ok((0, "."))),
            ("docs/a.txt", &["docs", "src"], Ok((0, "a.txt"))),
            ("src", &["docs", "src"], Ok((1, "."))),
            ("src/gen/x", &["src", "src/gen"], Ok((1, "x"))),
            ("src/gen/x", &["src/gen", "."], Ok((0, "x"))),
            ("other/x", &["src", "."], Ok((1, "other/x"))),
            ("docs/../x", &["docs"], Ok((0, "../x"))),
            ("docsx/a", &["docs"], Err("`docsx/a` is in none of the granted folders: `docs`")),
            (
                "/etc/passwd",
                &[".", "docs"],
                Err("`/etc/passwd` is absolute; use a path relative to the granted folders: `.`, `docs`"),
            ),
            ("/data/x", &[".", "/data"], Ok((1, "x"))),
            ("x", &[], Err("no folder was granted to this plugin")),
        ];
        for (path, names, expected) in cases {
            let found = resolve(path, names).map_err(|error| error.message().to_owned());
            assert_eq!(
                found,
                expected.map(|(i, p)| (i, p.to_owned())).map_err(str::to_owned),
                "for {path} in {names:?}"
            );
        }
    }

    #[test]
    fn tool_path_is_normalised_below_the_root() {
        let root = Some("/home/ann");
        for (root, path, expected) in [
            (root, "a.txt", "/home/ann/a.txt"),
            (root, ".", "/home/ann"),
            (root, "./a//b/", "/home/ann/a/b"),
            (root, "../bob/x", "/home/bob/x"),
            (root, "../../../../x", "/x"),
            (root, "/etc/../tmp/./x", "/tmp/x"),
            (root, "/", "/"),
            (Some("/"), "x", "/x"),
            (None, "a/../b", "b"),
            (None, "a/..", "."),
            (None, "../x", "../x"),
            (None, "../../x", "../../x"),
            (None, "/a/../../x", "/x"),
            (None, "Ä/ü ö.txt", "Ä/ü ö.txt"),
            (None, "a~/x", "a~/x"),
        ] {
            assert_eq!(path_below(root, path).as_deref(), Ok(expected), "{path} below {root:?}");
        }
        for (path, why) in [("", "top folder"), ("a\0b", "zero byte"), ("~", "only shells"), ("~/x", "only shells")] {
            assert!(path_below(root, path).unwrap_err().message().contains(why), "{path}");
        }
        assert!(path_below(None, &"\0".repeat(9_000)).unwrap_err().message().len() < 400);
    }

    #[test]
    fn path_outside_absolute_folders_is_requestable() {
        let folders = ["/home/ann".to_owned(), "docs".to_owned()];
        for (path, expected) in
            [("/home/ann", false), ("/home/ann/x", false), ("/home/anna", true), ("/", true), ("x", false)]
        {
            assert_eq!(lies_outside(path, &folders), expected, "{path}");
        }
        assert!(!lies_outside("/etc", &folders[1..]), "nothing here has an absolute path");
        assert!(!lies_outside("/etc", &[]));
        assert!(!lies_outside("/etc", &["/".to_owned()]));
    }
}
