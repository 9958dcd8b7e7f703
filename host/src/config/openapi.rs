//! APIs in a config that OpenAPI documents describe, and the operations that agents use.

use std::{
    fmt,
    io::Read,
    path::Path,
    sync::{Arc, OnceLock},
};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{self, value::MapAccessDeserializer},
};
use url::Url;

use super::{HostToolbox, egress::networks, values::or_text};
use crate::{
    capability::HttpGrant,
    digest::Sha256Digest,
    error::{ErrorKind, Report, why_unreadable},
    files, limits,
    mcp::{check_server_name, tool_name},
    net::is_loopback,
    openapi::{ApiListing, CredentialPlace, ListingOptions, OperationPattern, SelectedOperations},
};

/// A named API that an OpenAPI document describes.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenApiConfig {
    /// The name that agents use; it is also the prefix of the names of its tools.
    pub name: String,
    /// The document: a file, whose relative path is below the config's root, or an https:// URL.
    pub document: String,
    /// The SHA-256 digest that a document at a URL must have, as 64 hexadecimal digits; `None`: its operations are approved as
    /// they are when they are used for the first time.
    pub sha256: Option<String>,
    /// The URL below which the paths of the document are; `None`: its first server, or that of the path or the operation.
    pub base: Option<String>,
    /// Networks that the host names of `base` and `document` may resolve to besides public ones: `10.0.0.0/8`, or an address.
    #[serde(default)]
    pub networks: Vec<String>,
    /// The name of the credential that the host adds to its requests.
    pub credential: Option<String>,
    /// The operations of the document, once it was read.
    #[serde(skip)]
    pub listing: ReadListing,
}

/// The operations of a document once it was read, or the reason why it cannot be used. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ReadListing(Arc<OnceLock<Result<Arc<ApiListing>, String>>>);

/// Operations of an API that an agent uses: the name of the API, or a mapping with options.
// The derived `deserialize` reads the mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(inline, transform = or_text)]
pub struct OpenApiUse {
    /// The name of the API in `openapi`.
    pub name: String,
    /// The operations: each an `operationId`, or a method and a path as in `GET /pets/*`; `None`: all.
    pub operations: Option<Vec<String>>,
    /// Asks a person before each call. `None`: before calls of operations other than GET and HEAD.
    pub confirm: Option<bool>,
}

impl<'de> Deserialize<'de> for OpenApiUse {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OpenApiUseVisitor;
        impl<'de> de::Visitor<'de> for OpenApiUseVisitor {
            type Value = OpenApiUse;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an API, or a mapping with `name`")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<OpenApiUse, E> {
                Ok(OpenApiUse { name: name.to_owned(), ..OpenApiUse::default() })
            }
            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<OpenApiUse, M::Error> {
                OpenApiUse::deserialize(MapAccessDeserializer::new(map))
            }
        }
        from.deserialize_any(OpenApiUseVisitor)
    }
}

impl OpenApiUse {
    /// Returns the operations of a document that the agent uses.
    ///
    /// # Errors
    ///
    /// A message if they are too many.
    pub fn selected(&self, listing: &ApiListing) -> Result<SelectedOperations, String> {
        // A checked config has only valid names.
        let patterns = self
            .operations
            .as_ref()
            .map(|names| names.iter().filter_map(|name| OperationPattern::parse(name).ok()).collect::<Vec<_>>());
        listing.select(patterns.as_deref())
    }

    /// Checks what serde cannot express. `at` is its position in the config.
    pub(super) fn check(&self, at: &str) -> Result<(), Report> {
        let usage = |what: String| Report::new(ErrorKind::Usage, format!("{at}.{}: {what}", self.name.escape_debug()));
        let names = self.operations.as_deref().unwrap_or_default();
        if names.len() > limits::OPENAPI_PATTERNS {
            return Err(usage(format!("operations: must have at most {} entries", limits::OPENAPI_PATTERNS)));
        }
        names.iter().try_for_each(|name| {
            OperationPattern::parse(name).map(drop).map_err(|why| {
                usage(format!("operations: {why}")).hint("write an operationId, or a method and a path: `GET /pets/*`")
            })
        })
    }
}

impl ReadListing {
    /// Returns the operations, or the reason why there are none; `None` if the document was not read yet.
    pub fn get(&self) -> Option<&Result<Arc<ApiListing>, String>> {
        self.0.get()
    }

    /// Returns the operations, if there are some.
    pub fn found(&self) -> Option<&Arc<ApiListing>> {
        self.get()?.as_ref().ok()
    }

    /// Keeps what was read first.
    fn keep(&self, read: Result<Arc<ApiListing>, String>) {
        let _ = self.0.set(read);
    }
}

impl OpenApiConfig {
    /// Returns the URL of the document; `None` if it is a file.
    pub fn url(&self) -> Option<Url> {
        self.is_at_url().then(|| Url::parse(&self.document).ok()).flatten()
    }

    /// Returns `true` if the document is at a URL.
    pub fn is_at_url(&self) -> bool {
        self.document.contains("://")
    }

    /// Returns `true` if a person approves its operations one by one: a document at a URL may say something else later.
    pub fn is_pinned(&self) -> bool {
        self.is_at_url() && self.sha256.is_none()
    }

    /// Returns the URLs below which requests go, as far as they are known.
    pub fn known_servers(&self) -> Vec<String> {
        if let Some(base) = &self.base {
            // Servers of single operations are below it.
            return vec![base.clone()];
        }
        match self.url() {
            // The document may name no server at another origin. What it says is known only while agents work.
            Some(url) => vec![url.origin().ascii_serialization()],
            None => self.listing.found().map(|listing| listing.servers()).unwrap_or_default(),
        }
    }

    /// Returns the parsed networks. If one cannot be parsed the list is empty; a checked config has no such entry.
    pub fn networks(&self) -> Vec<IpNet> {
        networks(&self.networks).unwrap_or_default()
    }

    /// Reads a document of this text, and keeps its operations. `credential` is where the host adds the credential.
    ///
    /// # Errors
    ///
    /// A message that says why it cannot be used.
    pub fn read(&self, text: &str, credential: Option<&CredentialPlace>) -> Result<Arc<ApiListing>, String> {
        if let Some(expected) = &self.sha256 {
            let digest = Sha256Digest::of(text).hex();
            if digest != *expected {
                return Err(format!("the document has the SHA-256 digest {digest}, expected {expected}"));
            }
        }
        let (url, networks) = (self.url(), self.networks());
        let options = ListingOptions {
            base: self.base.as_deref(),
            document_url: url.as_ref(),
            networks: &networks,
            credential,
            tool_name: &|operation| tool_name(&self.name, operation),
        };
        let listing = Arc::new(ApiListing::read(text, &options)?);
        self.listing.keep(Ok(Arc::clone(&listing)));
        Ok(listing)
    }

    /// Reads the document if it is a file, and keeps its operations or the reason why there are none.
    pub(super) fn read_file(&self, root: &Path, credential: Option<&CredentialPlace>) {
        if self.is_at_url() || self.listing.get().is_some() {
            return;
        }
        let path = root.join(&self.document);
        let read = document_text(&path).and_then(|text| self.read(&text, credential));
        if let Err(why) = read {
            self.listing.keep(Err(format!("{}: {why}", path.display())));
        }
    }

    /// Checks what serde cannot express.
    pub(super) fn check(&self) -> Result<(), Report> {
        let usage = |what: String| Report::new(ErrorKind::Usage, what);
        let at = format!("openapi.{}", self.name.escape_debug());
        check_server_name(&self.name).map_err(|why| usage(format!("openapi: {why}")))?;
        if HostToolbox::is_reserved(&self.name) {
            return Err(usage(format!("{at}: a toolbox of the host has this name")).hint("rename the API"));
        }
        if self.document.trim().is_empty() {
            return Err(
                usage(format!("{at}.document: is empty")).hint("name the file or the https:// URL of the document")
            );
        }
        if self.is_at_url() {
            check_document_url(&self.document).map_err(|why| usage(format!("{at}.document: {why}")))?;
        } else if self.sha256.is_some() {
            return Err(usage(format!("{at}.sha256: valid only for a document at a URL"))
                .hint("remove `sha256`; a file is a part of the project"));
        }
        if self.sha256.as_ref().is_some_and(|digits| Sha256Digest::of_hex(digits).is_none()) {
            return Err(usage(format!("{at}.sha256: not 64 hexadecimal digits in lower case"))
                .hint("write the first word that `sha256sum` prints for the document"));
        }
        if self.networks.len() > limits::HTTP_ENTRY_WORDS {
            let most = limits::HTTP_ENTRY_WORDS;
            return Err(usage(format!("{at}.networks: must have at most {most} entries")));
        }
        let networks = networks(&self.networks).map_err(|why| usage(format!("{at}.{why}")))?;
        if let Some(base) = &self.base {
            let example = "write the URL with its scheme: `base: https://api.example.com/v1`";
            if base.contains('*') {
                return Err(usage(format!("{at}.base: must not contain `*`")).hint(example));
            }
            HttpGrant::entry(base, &[], &networks).map_err(|why| usage(format!("{at}.base: {why}")).hint(example))?;
        }
        Ok(())
    }
}

/// Checks the URL of a document.
fn check_document_url(text: &str) -> Result<(), String> {
    let url = Url::parse(text).map_err(|error| format!("not a URL: {error}"))?;
    match url.scheme() {
        "https" if url.has_host() => {}
        // Nobody on the way can change what comes from this machine.
        "http" if is_loopback(&url) => {}
        _ => return Err("must be a file, or begin with https://".into()),
    }
    if !url.username().is_empty() || url.password().is_some() || url.host_str().is_some_and(|host| host.contains('*')) {
        return Err("must not have a user, a password or `*`".into());
    }
    let mut plain = url.clone();
    plain.set_query(None);
    plain.set_fragment(None);
    HttpGrant::entry(plain.as_str(), &[], &[]).map(drop)
}

/// Returns the text of a file within the bound of a document.
///
/// # Errors
///
/// The reason why it cannot be read.
pub fn document_text(path: &Path) -> Result<String, String> {
    let most = limits::OPENAPI_DOCUMENT_BYTES;
    let file = files::open(path).map_err(|error| why_unreadable(&error))?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(|error| why_unreadable(&error))?;
    if bytes.len() > most {
        return Err(format!("the document has more than {most} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "the document is not UTF-8 text".into())
}

#[cfg(test)]
mod tests;
