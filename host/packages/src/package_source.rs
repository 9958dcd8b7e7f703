//! The sources of plugins and agent packages.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use shelly_core::limits;

use url::Url;

use crate::{download::is_safe, oci::OciReference, package_error::PackageError};

/// The source of a plugin or an agent package, as a person or a lock file writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageSource {
    /// A folder with a `plugin.toml`, or a component file; for agents, a folder with an `agent.toml`, or that file.
    Path(PathBuf),
    /// An artifact in a registry.
    Oci(OciReference),
    /// The `plugin.toml` or the component of a plugin, or the `agent.toml` of an agent package, on a web server.
    Url(Url),
}

impl PackageSource {
    /// Parses the source of a plugin.
    ///
    /// # Errors
    ///
    /// [`PackageError::Source`].
    pub fn parse(text: &str) -> Result<Self, PackageError> {
        Self::parse_ending(text, &["/plugin.toml", ".wasm"], "it leads neither to a plugin.toml nor to a .wasm file")
    }

    /// Parses the source of an agent package.
    ///
    /// # Errors
    ///
    /// [`PackageError::Source`].
    pub fn parse_agent(text: &str) -> Result<Self, PackageError> {
        Self::parse_ending(text, &["/agent.toml"], "it does not lead to an agent.toml")
    }

    /// Parses a source. The path of a URL must have one of these endings; `why` is the reason in the error if it has none.
    fn parse_ending(text: &str, endings: &[&str], why: &str) -> Result<Self, PackageError> {
        let wrong = |why: String| PackageError::Source { text: text.chars().take(80).collect(), why };
        if text.len() > limits::PACKAGE_SOURCE_BYTES {
            return Err(wrong(format!("it has more than {} bytes", limits::PACKAGE_SOURCE_BYTES)));
        }
        if text.trim().is_empty() {
            return Err(wrong("it is empty".into()));
        }
        if let Some(reference) = OciReference::parse(text) {
            return reference.map(Self::Oci).map_err(wrong);
        }
        if !text.starts_with("https://") && !text.starts_with("http://") {
            return Ok(Self::Path(PathBuf::from(text)));
        }
        let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        if !is_safe(&url, &url) {
            return Err(wrong("it begins with http://; use https://".into()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it has a user name or a password, which a lock file must not contain".into()));
        }
        match endings.iter().any(|ending| url.path().ends_with(ending)) {
            true => Ok(Self::Url(url)),
            false => Err(wrong(why.into())),
        }
    }

    /// Returns the source as a lock file in `folder` names it: a path below that folder becomes relative to it, so that the
    /// lock file is valid on every machine.
    pub fn relative_to(self, folder: &Path) -> Self {
        match self {
            Self::Path(path) => {
                let (real, folder) = (shelly_core::files::resolved(&path), shelly_core::files::resolved(folder));
                let below = real.strip_prefix(&folder).map(Path::to_owned);
                Self::Path(below.unwrap_or(real))
            }
            other => other,
        }
    }

    /// Returns the source as a command can use it: the reverse of [`Self::relative_to`] for a lock file in `folder`.
    pub fn of_lock_in(self, folder: &Path) -> Self {
        match self {
            Self::Path(path) => Self::Path(folder.join(path)),
            other => other,
        }
    }
}

/// Writes the source as [`PackageSource::parse`] reads it.
impl fmt::Display for PackageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Oci(reference) => write!(f, "{reference}"),
            Self::Url(url) => write!(f, "{url}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_below_the_lock_file_is_relative_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("build/dice");
        std::fs::create_dir_all(&below).unwrap();
        let source = PackageSource::Path(below.clone()).relative_to(folder.path());
        assert_eq!(source.to_string(), "build/dice");
        let read = PackageSource::parse(&source.to_string()).unwrap().of_lock_in(folder.path());
        assert_eq!(read, PackageSource::Path(folder.path().join("build/dice")));
        let elsewhere = tempfile::tempdir().unwrap();
        let source = PackageSource::Path(elsewhere.path().into()).relative_to(folder.path());
        assert_eq!(source, PackageSource::Path(shelly_core::files::resolved(elsewhere.path())));
    }

    #[test]
    fn agent_package_on_a_web_server_is_its_manifest() {
        let url = "https://a.example/reviewer/agent.toml";
        assert_eq!(PackageSource::parse_agent(url).unwrap().to_string(), url);
        assert!(PackageSource::parse(url).is_err());
        let report = PackageSource::parse_agent("https://a.example/plugin.toml").unwrap_err().report();
        assert_eq!(report.causes, ["it does not lead to an agent.toml"]);
    }

    #[test]
    fn source_that_names_nothing_is_refused() {
        let long = "x".repeat(limits::PACKAGE_SOURCE_BYTES + 1);
        for (text, says) in [
            ("", "it is empty"),
            (" ", "it is empty"),
            ("oci://ghcr.io", "it has no repository after the registry"),
            ("http://a.example/plugin.toml", "it begins with http://; use https://"),
            (
                "https://me:secret@a.example/c.wasm",
                "it has a user name or a password, which a lock file must not contain",
            ),
            ("https://a.example/dice.tar.gz", "it leads neither to a plugin.toml nor to a .wasm file"),
            (long.as_str(), "it has more than 2048 bytes"),
        ] {
            let report = PackageSource::parse(text).unwrap_err().report();
            assert!(report.message.ends_with("is not the source of a package") && report.causes == [says], "{report}");
        }
    }
}
