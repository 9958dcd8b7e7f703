//! The files of a plugin package, and what the files of both sorts of packages have in common.

use std::{collections::BTreeMap, fmt::Write, io::Read, path::Path};

use shelly_core::{digest::Sha256Digest, files, limits};

use crate::package_error::PackageError;

/// The name of the manifest of a plugin.
pub(crate) const MANIFEST_FILE: &str = "plugin.toml";

/// The files of a plugin as they are installed: its component, and if it has them its manifest and the WIT file that documents
/// its functions.
#[derive(Clone, PartialEq, Eq)]
pub struct PluginPackageFiles {
    component: String,
    /// By name; one of them is the component.
    files: BTreeMap<String, Vec<u8>>,
}

/// Writes the names and sizes.
impl std::fmt::Debug for PluginPackageFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.files.iter().map(|(name, bytes)| (name, bytes.len()))).finish()
    }
}

impl PluginPackageFiles {
    /// The name of the signature of a plugin: of the list of its files, as `sha256sum` prints it.
    pub const SIGNATURE_FILE: &str = "SHA256SUMS.minisig";

    /// Creates the package of a component alone. `name` is the name of its file.
    ///
    /// # Errors
    ///
    /// [`PackageError`] for a name that an installed file cannot have, or a component that is too large.
    pub fn new(name: &str, component: Vec<u8>) -> Result<Self, PackageError> {
        if !is_file_name(name) || !name.ends_with(".wasm") {
            return Err(PackageError::FileName { name: name.to_owned() });
        }
        check_size(name, component.len() as u64, limits::COMPONENT_BYTES)?;
        Ok(Self { component: name.to_owned(), files: BTreeMap::from([(name.to_owned(), component)]) })
    }

    /// Adds the `plugin.toml`.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if it is too large or not text.
    pub fn with_manifest(self, text: Vec<u8>) -> Result<Self, PackageError> {
        self.with_text(MANIFEST_FILE.to_owned(), text, limits::MANIFEST_BYTES)
    }

    /// Adds the WIT file that documents the functions of the component.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if it is too large or not text.
    pub fn with_wit(self, text: Vec<u8>) -> Result<Self, PackageError> {
        let name = self.wit_name();
        self.with_text(name, text, limits::PACKAGE_DOCS_BYTES as u64)
    }

    fn with_text(mut self, name: String, text: Vec<u8>, most: u64) -> Result<Self, PackageError> {
        check_size(&name, text.len() as u64, most)?;
        if std::str::from_utf8(&text).is_err() {
            return Err(PackageError::NotText { of: name });
        }
        self.files.insert(name, text);
        Ok(self)
    }

    /// Reads the package of a plugin in a folder. `component` is the name of its component there; with `has_manifest` the
    /// `plugin.toml` beside it belongs to it.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if a file cannot be read, is too large or has a name that an installed file cannot have.
    pub fn read(folder: &Path, component: &str, has_manifest: bool) -> Result<Self, PackageError> {
        let mut package = Self::new(component, read_file(folder, component, limits::COMPONENT_BYTES)?)?;
        if has_manifest {
            package = package.with_manifest(read_file(folder, MANIFEST_FILE, limits::MANIFEST_BYTES)?)?;
        }
        let wit = package.wit_name();
        match folder.join(&wit).is_file() {
            true => package.with_wit(read_file(folder, &wit, limits::PACKAGE_DOCS_BYTES as u64)?),
            false => Ok(package),
        }
    }

    /// Reads the signature in the folder of a plugin, if there is one.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if it cannot be read, is too large or not text.
    pub fn read_signature(folder: &Path) -> Result<Option<String>, PackageError> {
        if !folder.join(Self::SIGNATURE_FILE).is_file() {
            return Ok(None);
        }
        let text = String::from_utf8(read_file(folder, Self::SIGNATURE_FILE, limits::PLUGIN_SIGNATURE_BYTES)?);
        text.map(Some).map_err(|_| PackageError::NotText { of: Self::SIGNATURE_FILE.to_owned() })
    }

    /// Reads the files that a lock file names, and checks that they are those.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if a file cannot be read or is another one.
    pub(crate) fn read_locked(
        folder: &Path,
        component: &str,
        locked: &BTreeMap<String, Sha256Digest>,
    ) -> Result<Self, PackageError> {
        let package = Self::read(folder, component, locked.contains_key(MANIFEST_FILE))?;
        let found = package.digests();
        for (name, locked) in locked {
            let path = folder.join(name);
            match found.get(name) {
                Some(digest) if digest == locked => {}
                Some(digest) => return Err(PackageError::Altered { path, locked: *locked, found: *digest }),
                None => return Err(PackageError::file("read", &path)(std::io::ErrorKind::NotFound.into())),
            }
        }
        match found.keys().find(|name| !locked.contains_key(*name)) {
            Some(name) => Err(PackageError::Unlocked { path: folder.join(name) }),
            None => Ok(package),
        }
    }

    /// Returns the name of the WIT file that documents the component.
    pub(crate) fn wit_name(&self) -> String {
        format!("{}.wit", self.component.strip_suffix(".wasm").unwrap_or(&self.component))
    }

    /// Returns the file name of the component.
    pub fn component_name(&self) -> &str {
        &self.component
    }

    /// Returns the component.
    pub fn component(&self) -> &[u8] {
        self.files.get(&self.component).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the text of the `plugin.toml`, if the package has one.
    pub fn manifest(&self) -> Option<&str> {
        self.files.get(MANIFEST_FILE).and_then(|text| std::str::from_utf8(text).ok())
    }

    /// Returns the text of the WIT file, if the package has one.
    pub fn wit(&self) -> Option<&str> {
        self.files.get(&self.wit_name()).and_then(|text| std::str::from_utf8(text).ok())
    }

    /// Returns the digests of the files by their names.
    pub fn digests(&self) -> BTreeMap<String, Sha256Digest> {
        self.files.iter().map(|(name, bytes)| (name.clone(), Sha256Digest::of(bytes))).collect()
    }

    /// Returns the digest of the package: of the list of its files and their digests.
    pub fn digest(&self) -> Sha256Digest {
        Sha256Digest::of(checksums(&self.digests()))
    }

    /// Returns the size of the component in bytes.
    pub fn size(&self) -> u64 {
        self.component().len() as u64
    }

    /// Returns the files by their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }
}

/// Returns the list of files and digests that a package is named after and that its author signs: what the program
/// `sha256sum` prints for the files in the order of their names.
pub(crate) fn checksums(digests: &BTreeMap<String, Sha256Digest>) -> String {
    digests.iter().fold(String::new(), |mut text, (name, digest)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}  {name}", digest.hex());
        text
    })
}

/// Returns `true` for a name that is harmless in every file system, in a lock file and in a list of checksums.
pub(crate) fn is_file_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=limits::PACKAGE_FILE_NAME_CHARS).contains(&name.len()) && name.bytes().all(is_plain) && !name.starts_with('.')
}

pub(crate) fn check_size(of: &str, size: u64, most: u64) -> Result<(), PackageError> {
    if size <= most { Ok(()) } else { Err(PackageError::TooLarge { of: of.to_owned(), most }) }
}

/// Reads a file of at most `most` bytes. A link may not lead out of the folder.
pub(crate) fn read_file(folder: &Path, name: &str, most: u64) -> Result<Vec<u8>, PackageError> {
    let path = folder.join(name);
    let real = path.canonicalize().map_err(PackageError::file("read", &path))?;
    if !real.starts_with(folder.canonicalize().map_err(PackageError::file("read", folder))?) {
        return Err(PackageError::LeadsOut { path });
    }
    let mut bytes = Vec::new();
    let file = files::open(&real).map_err(PackageError::file("read", &path))?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(PackageError::file("read", &path))?;
    check_size(name, bytes.len() as u64, most)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn package_has_component_manifest_and_its_wit() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in
            [("c.wasm", "code"), ("plugin.toml", "id"), ("c.wit", "docs"), ("other.wit", "x"), ("a", "b")]
        {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let package = PluginPackageFiles::read(folder.path(), "c.wasm", true).unwrap();
        assert_eq!((package.component(), package.manifest(), package.wit()), (&b"code"[..], Some("id"), Some("docs")));
        let names: Vec<_> = package.digests().into_keys().collect();
        assert_eq!(names, ["c.wasm", "c.wit", "plugin.toml"]);
        let alone = PluginPackageFiles::read(folder.path(), "c.wasm", false).unwrap();
        assert_eq!(alone.manifest(), None);
        assert_ne!(alone.digest(), package.digest());
    }

    #[test]
    fn checksums_are_those_of_sha256sum() {
        let package = PluginPackageFiles::new("c.wasm", b"abc".to_vec()).unwrap().with_manifest(Vec::new()).unwrap();
        assert_eq!(
            checksums(&package.digests()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  c.wasm\n\
             e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  plugin.toml\n"
        );
    }

    #[test]
    fn file_beyond_a_bound_or_outside_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let long = format!("{}.wasm", "x".repeat(limits::PACKAGE_FILE_NAME_CHARS));
        for name in ["../c.wasm", "c.wasm\n", ".wasm", "c.txt", "", &long] {
            let error = PluginPackageFiles::new(name, Vec::new()).unwrap_err();
            assert!(matches!(error, PackageError::FileName { .. }), "{name}: {error}");
        }
        let large = vec![b'x'; usize::try_from(limits::MANIFEST_BYTES).unwrap() + 1];
        fs::write(folder.path().join("plugin.toml"), &large).unwrap();
        fs::write(folder.path().join("c.wasm"), "").unwrap();
        let error = PluginPackageFiles::read(folder.path(), "c.wasm", true).unwrap_err();
        assert_eq!(error.to_string(), "plugin.toml has more than 65536 bytes");
        let package = PluginPackageFiles::new("c.wasm", Vec::new()).unwrap();
        let error = package.clone().with_wit(vec![b'x'; limits::PACKAGE_DOCS_BYTES + 1]).unwrap_err();
        assert!(matches!(error, PackageError::TooLarge { .. }), "{error}");
        assert!(matches!(package.with_manifest(vec![0xff]), Err(PackageError::NotText { .. })));
        assert_eq!(PluginPackageFiles::read_signature(folder.path()).unwrap(), None);
        let large = "x".repeat(usize::try_from(limits::PLUGIN_SIGNATURE_BYTES).unwrap() + 1);
        fs::write(folder.path().join(PluginPackageFiles::SIGNATURE_FILE), large).unwrap();
        let error = PluginPackageFiles::read_signature(folder.path()).unwrap_err();
        assert_eq!(error.to_string(), "SHA256SUMS.minisig has more than 4096 bytes");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link.wasm")).unwrap();
            let error = PluginPackageFiles::read(folder.path(), "link.wasm", false).unwrap_err();
            assert!(matches!(error, PackageError::LeadsOut { .. } | PackageError::File { .. }), "{error}");
        }
    }
}
