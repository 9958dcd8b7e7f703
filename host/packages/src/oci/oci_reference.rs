//! The name of an artifact in a registry.

use std::fmt;

use shelly_core::{digest::Sha256Digest, limits};
use shelly_net::is_loopback;
use url::Url;

/// The scheme of an artifact's name.
const SCHEME: &str = "oci://";

/// The name of an artifact in a registry: `oci://REGISTRY/NAME:TAG`, or with `@sha256:…` in place of the tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciReference {
    /// The host of the registry, with its port if it names one.
    pub registry: String,
    /// The name of the repository.
    pub repository: String,
    /// The version in the repository.
    pub version: OciVersion,
}

/// The version of an artifact in its repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OciVersion {
    /// A name that can be given to another artifact later.
    Tag(String),
    /// The digest of the manifest.
    Digest(Sha256Digest),
}

/// Writes the version as the protocol names it.
impl fmt::Display for OciVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => write!(f, "{digest}"),
        }
    }
}

impl OciReference {
    /// Parses a name. Returns `None` if it does not begin with `oci://`. Without a tag it is `latest`.
    ///
    /// # Errors
    ///
    /// The reason why it is not the name of an artifact.
    pub fn parse(text: &str) -> Option<Result<Self, String>> {
        text.strip_prefix(SCHEME).map(Self::of)
    }

    fn of(text: &str) -> Result<Self, String> {
        let (registry, path) = text.split_once('/').ok_or("it has no repository after the registry")?;
        let (repository, version) = match (path.split_once('@'), path.split_once(':')) {
            (Some((repository, digest)), _) => {
                let digest = Sha256Digest::parse(digest).ok_or("after @ it needs `sha256:` and 64 digits")?;
                (repository, OciVersion::Digest(digest))
            }
            (None, Some((repository, tag))) => (repository, OciVersion::Tag(tag.to_owned())),
            (None, None) => (path, OciVersion::Tag("latest".to_owned())),
        };
        if let OciVersion::Tag(tag) = &version
            && !is_tag(tag)
        {
            return Err("its tag is not 1 to 128 letters, digits, `.`, `_` and `-`".to_owned());
        }
        if !is_repository(repository) {
            return Err("its repository is not made of a-z, 0-9 and `.`, `_`, `-`, `/` between them".to_owned());
        }
        let reference = Self { registry: registry.to_owned(), repository: repository.to_owned(), version };
        match reference.origin() {
            Some(_) => Ok(reference),
            None => Err("its registry is not a host".to_owned()),
        }
    }

    /// Returns the address of the registry. Only a registry on this machine is reached without TLS.
    pub(crate) fn origin(&self) -> Option<Url> {
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']');
        if self.registry.is_empty() || !self.registry.bytes().all(is_host) {
            return None;
        }
        // The registry API of Docker Hub is on another host than its well-known name.
        let host = if self.registry == "docker.io" { "registry-1.docker.io" } else { &self.registry };
        let plain = Url::parse(&format!("http://{host}/")).ok()?;
        if is_loopback(&plain) { Some(plain) } else { Url::parse(&format!("https://{host}/")).ok() }
    }

    /// Returns the last part of the repository's name.
    pub fn short_name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or(&self.repository)
    }

    /// Returns the name of the same artifact by the digest of its manifest.
    pub fn at(&self, digest: Sha256Digest) -> Self {
        Self { version: OciVersion::Digest(digest), ..self.clone() }
    }
}

/// Writes the name as [`OciReference::parse`] reads it.
impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if matches!(self.version, OciVersion::Tag(_)) { ':' } else { '@' };
        write!(f, "{SCHEME}{}/{}{separator}{}", self.registry, self.repository, self.version)
    }
}

fn is_tag(tag: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=limits::REGISTRY_TAG_BYTES).contains(&tag.len()) && tag.bytes().all(is_fine) && !tag.starts_with(['.', '-'])
}

fn is_repository(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_part =
        |part: &str| part.bytes().all(is_fine) && is_edge(part.bytes().next()) && is_edge(part.bytes().next_back());
    name.len() <= limits::REPOSITORY_NAME_BYTES && name.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_is_read_as_it_is_written() {
        let digest = format!("sha256:{}", "5d".repeat(32));
        for (text, origin, short) in [
            ("oci://ghcr.io/me/dice:1.0.0".to_owned(), "https://ghcr.io/", "dice"),
            ("oci://localhost:5000/dice:latest".to_owned(), "http://localhost:5000/", "dice"),
            ("oci://docker.io/me/a.b_c-d:v1".to_owned(), "https://registry-1.docker.io/", "a.b_c-d"),
            (format!("oci://127.0.0.1:5000/a/b/c@{digest}"), "http://127.0.0.1:5000/", "c"),
        ] {
            let reference = OciReference::parse(&text).unwrap().unwrap();
            assert_eq!(reference.to_string(), text);
            assert_eq!((reference.origin().unwrap().as_str(), reference.short_name()), (origin, short));
        }
        let latest = OciReference::parse("oci://ghcr.io/me/dice").unwrap().unwrap();
        assert_eq!(latest.to_string(), "oci://ghcr.io/me/dice:latest");
        assert!(OciReference::parse("build/dice").is_none());
    }

    #[test]
    fn wrong_reference_is_refused_with_its_mistake() {
        let (tag, name) = ("t".repeat(limits::REGISTRY_TAG_BYTES + 1), "n".repeat(limits::REPOSITORY_NAME_BYTES + 1));
        for (text, says) in [
            ("oci://ghcr.io".to_owned(), "no repository"),
            ("oci:///dice:1".to_owned(), "its registry is not a host"),
            ("oci://me:secret@ghcr.io/dice:1".to_owned(), "its registry is not a host"),
            ("oci://ghcr.io/Dice:1".to_owned(), "its repository is not made of"),
            ("oci://ghcr.io/a//b:1".to_owned(), "its repository is not made of"),
            ("oci://ghcr.io/../b:1".to_owned(), "its repository is not made of"),
            (format!("oci://ghcr.io/{name}:1"), "its repository is not made of"),
            (format!("oci://ghcr.io/dice:{tag}"), "its tag is not"),
            ("oci://ghcr.io/dice:".to_owned(), "its tag is not"),
            ("oci://ghcr.io/dice@sha256:5d".to_owned(), "64 digits"),
        ] {
            let why = OciReference::parse(&text).unwrap().unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
