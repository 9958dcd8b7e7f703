//! Files, in the folders that the host granted.
//!
//! Paths are relative, with `/` between names. A folder that was granted under the name `.` holds all of them;
//! otherwise a path begins with a folder's name. The host refuses whatever leads out of a granted folder, be it by
//! `..` or by a link.

use wasip2::filesystem::{
    preopens,
    types::{Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, OpenFlags, PathFlags},
};

use crate::types::Error;

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A link, a pipe, a device.
    Other,
}

/// What is known of a file or folder without reading it. Links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: Kind,
    /// Bytes; of a file.
    pub size: u64,
}

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, without a path.
    pub name: String,
    /// What it is. A link is not followed: `Other`.
    pub kind: Kind,
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
        // Opening a pipe waits for somebody who writes to it: look first.
        must_be_file(metadata(path)?, path)?;
        let descriptor = open(path, OpenFlags::empty(), DescriptorFlags::READ)?;
        Ok(File { descriptor, path: path.to_owned() })
    }

    /// What is known of it.
    pub fn metadata(&self) -> Result<Metadata, Error> {
        let stat = self.descriptor.stat().map_err(|code| explain(code, &self.path))?;
        Ok(metadata_of(&stat))
    }

    /// At most `max` bytes from `offset`. Empty only at the end of the file, or if `max` is 0.
    pub fn read_at(&self, offset: u64, max: u64) -> Result<Vec<u8>, Error> {
        let (bytes, _end) = self.descriptor.read(max, offset).map_err(|code| explain(code, &self.path))?;
        Ok(bytes)
    }
}

/// The names of the granted folders.
pub fn folders() -> Vec<String> {
    granted().into_iter().map(|(_, name)| name).collect()
}

/// A whole file of at most `max` bytes; `Error::TooLarge` if it has more.
pub fn read(path: &str, max: u64) -> Result<Vec<u8>, Error> {
    let file = File::open(path)?;
    let size = file.metadata()?.size;
    let too_large = |size| Error::TooLarge(format!("`{path}` has {size} bytes; at most {max} can be read at once"));
    if size > max {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed shows that the file has grown since.
    while bytes.len() as u64 <= max {
        let chunk = file.read_at(bytes.len() as u64, max + 1 - bytes.len() as u64)?;
        if chunk.is_empty() {
            return Ok(bytes);
        }
        bytes.extend(chunk);
    }
    Err(too_large(bytes.len() as u64))
}

/// A whole file of at most `max` bytes that is UTF-8.
pub fn read_to_string(path: &str, max: u64) -> Result<String, Error> {
    String::from_utf8(read(path, max)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::Invalid(format!("`{path}` is not a text: byte {at} is not UTF-8"))
    })
}

/// At most `max` of the names in a folder, sorted, and whether there are more. Of a larger folder these are some
/// names, not the first ones.
pub fn read_dir(path: &str, max: usize) -> Result<(Vec<Entry>, bool), Error> {
    let mut entries = Vec::new();
    let mut more = false;
    if is_above_all_folders(path) {
        let names = folders();
        more = names.len() > max;
        entries.extend(names.into_iter().take(max).map(|name| Entry { name, kind: Kind::Folder }));
    } else {
        let folder = open(path, OpenFlags::DIRECTORY, DescriptorFlags::READ)?;
        let stream = folder.read_directory().map_err(|code| explain(code, path))?;
        while let Some(entry) = stream.read_directory_entry().map_err(|code| explain(code, path))? {
            if entries.len() == max {
                more = true;
                break;
            }
            entries.push(Entry { name: entry.name, kind: kind_of(entry.type_) });
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((entries, more))
}

/// What is known of a file or folder.
pub fn metadata(path: &str) -> Result<Metadata, Error> {
    if is_above_all_folders(path) {
        return Ok(Metadata { kind: Kind::Folder, size: 0 });
    }
    let (folder, inner) = locate(path)?;
    let stat = folder.stat_at(PathFlags::SYMLINK_FOLLOW, &inner).map_err(|code| explain(code, path))?;
    Ok(metadata_of(&stat))
}

/// Writes a whole file, made if it does not exist. Needs a folder that was granted for writing.
pub fn write(path: &str, bytes: &[u8]) -> Result<(), Error> {
    let (folder, inner) = locate(path)?;
    let explain = |code| match code {
        ErrorCode::NotPermitted => Error::Denied(format!("`{path}` is in no folder that was granted for writing")),
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
            return Err(Error::other(format!("`{path}`: nothing more is written")));
        }
        written += count as usize;
    }
    Ok(())
}

fn must_be_file(found: Metadata, path: &str) -> Result<(), Error> {
    match found.kind {
        Kind::File => Ok(()),
        Kind::Folder => Err(Error::Invalid(format!("`{path}` is a folder, not a file"))),
        Kind::Other => Err(Error::Invalid(format!("`{path}` is neither a file nor a folder"))),
    }
}

fn granted() -> Vec<(Descriptor, String)> {
    if cfg!(target_arch = "wasm32") { preopens::get_directories() } else { Vec::new() }
}

fn open(path: &str, flags: OpenFlags, access: DescriptorFlags) -> Result<Descriptor, Error> {
    let (folder, inner) = locate(path)?;
    folder.open_at(PathFlags::SYMLINK_FOLLOW, &inner, flags, access).map_err(|code| explain(code, path))
}

/// The granted folder that `path` lies in, and the path from there.
fn locate(path: &str) -> Result<(Descriptor, String), Error> {
    let mut granted = granted();
    let names: Vec<&str> = granted.iter().map(|(_, name)| name.as_str()).collect();
    let (index, inner) = resolve(path, &names)?;
    Ok((granted.swap_remove(index).0, inner))
}

/// Whether `path` is the place where the named folders are, itself in none.
fn is_above_all_folders(path: &str) -> bool {
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
            true => Error::Invalid(format!("`{path}` is absolute; paths are relative, in the granted folders: {list}")),
            false => Error::NotFound(format!("`{path}` is in none of the granted folders: {list}")),
        });
    };
    let inner = &wanted[segments(name).len()..];
    Ok((index, if inner.is_empty() { ".".to_owned() } else { inner.join("/") }))
}

/// The names in a path, without those that say nothing.
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
        _ => Kind::Other,
    }
}

fn metadata_of(stat: &DescriptorStat) -> Metadata {
    Metadata { kind: kind_of(stat.type_), size: stat.size }
}

fn explain(code: ErrorCode, path: &str) -> Error {
    match code {
        ErrorCode::NoEntry => Error::NotFound(format!("`{path}` does not exist")),
        ErrorCode::NotDirectory => Error::Invalid(format!("`{path}` is not a folder, or leads through a file")),
        ErrorCode::IsDirectory => Error::Invalid(format!("`{path}` is a folder, not a file")),
        ErrorCode::NotPermitted => {
            let folders = folders();
            Error::Denied(format!("`{path}` is not allowed; it must stay in the granted folders: {}", quoted(&folders)))
        }
        ErrorCode::Access | ErrorCode::ReadOnly => Error::Denied(format!("`{path}`: no permission")),
        code => Error::other(format!("`{path}`: {}", code.message())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_in_the_folder_that_fits_best() {
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
                Err("`/etc/passwd` is absolute; paths are relative, in the granted folders: `.`, `docs`"),
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
}
