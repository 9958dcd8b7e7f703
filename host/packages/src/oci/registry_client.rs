//! The client of registries.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use futures_util::StreamExt;
use http::{Method, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use shelly_core::{digest::Sha256Digest, error::Fault, limits};
use shelly_net::{AuthHeader, HttpClient, HttpRequest, HttpResponse, Secret, fault_of_status, origin};
use url::{Url, form_urlencoded};

use super::{
    auth_challenge::AuthChallenge,
    oci_manifest::{
        AGENT_CONFIG_TYPE, COMPONENT_TYPE, CONFIG_TYPE, MANIFEST_TYPE, OTHER_COMPONENT_TYPES, OciDescriptor,
        OciManifest,
    },
    oci_reference::{OciReference, OciVersion},
    plugin_package_artifact::PluginPackageArtifact,
    registry_logins::{RegistryLogin, RegistryLogins},
};
use crate::{download::is_safe, package_error::PackageError};

/// The content type of the files of an artifact.
const BYTES_TYPE: &str = "application/octet-stream";

/// The use of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RegistryAction {
    Pull,
    Push,
}

impl RegistryAction {
    /// Returns the permissions that a token needs, as the protocol names them.
    fn permissions(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
        }
    }

    /// Returns the verb for messages.
    fn verb(self) -> &'static str {
        match self {
            Self::Pull => "get",
            Self::Push => "publish",
        }
    }
}

/// The registry, the repository and the action for which a login is valid.
type LoginKey = (String, String, RegistryAction);

/// A client of registries. It remembers its logins until it is dropped.
#[derive(Debug)]
pub struct RegistryClient {
    http: HttpClient,
    logins: RegistryLogins,
    logged_in: Mutex<HashMap<LoginKey, AuthHeader>>,
}

/// One request to a registry.
struct RegistryRequest<'a> {
    method: Method,
    url: Url,
    accept: Option<&'a str>,
    content: Option<(&'a str, &'a [u8])>,
}

impl RegistryRequest<'_> {
    fn get(url: Url) -> Self {
        Self { method: Method::GET, url, accept: None, content: None }
    }
}

/// The answer of a server that gives tokens.
#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

/// A page of the tags of a repository.
#[derive(Deserialize)]
struct TagsAnswer {
    tags: Option<Vec<String>>,
}

/// A use of one artifact in its registry.
struct RegistryTask<'a> {
    client: &'a RegistryClient,
    reference: &'a OciReference,
    /// The address of the registry.
    home: Url,
    action: RegistryAction,
}

impl RegistryClient {
    /// Creates a client that logs in with these logins.
    pub fn new(http: HttpClient, logins: RegistryLogins) -> Self {
        Self { http, logins, logged_in: Mutex::default() }
    }

    /// Gets an artifact: the digest of its manifest, and its content. Each file has the digest that the manifest names.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if the registry does not give it, or gives something else.
    pub async fn pull(&self, reference: &OciReference) -> Result<(Sha256Digest, PluginPackageArtifact), PackageError> {
        let task = self.task(reference, RegistryAction::Pull)?;
        let (digest, manifest) = task.manifest().await?;
        if manifest.config.media_type == AGENT_CONFIG_TYPE {
            return Err(task.wrong("it is an agent package; install it with `shelly-host agent install`"));
        }
        let mut components = manifest.layers.iter().filter(|layer| {
            layer.media_type == COMPONENT_TYPE || OTHER_COMPONENT_TYPES.contains(&layer.media_type.as_str())
        });
        let (Some(component), None) = (components.next(), components.next()) else {
            return Err(task.wrong("it does not contain exactly one component"));
        };
        let config = match manifest.config.media_type == CONFIG_TYPE {
            true => Some(task.blob(&manifest.config, limits::REGISTRY_CONFIG_BYTES as u64).await?),
            false => None,
        };
        // Other tools may write a config that this program cannot read. It has nothing that an installation needs.
        let config = config.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let component = task.blob(component, limits::COMPONENT_BYTES).await?;
        Ok((digest, PluginPackageArtifact::decode(manifest.annotations, config, component)))
    }

    /// Returns the digest of the manifest that an artifact has now.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if the registry does not answer.
    pub async fn resolve(&self, reference: &OciReference) -> Result<Sha256Digest, PackageError> {
        let (digest, _) = self.task(reference, RegistryAction::Pull)?.manifest().await?;
        Ok(digest)
    }

    /// Returns the tags of a repository.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if the registry does not list them, or has too many.
    pub async fn tags(&self, reference: &OciReference) -> Result<Vec<String>, PackageError> {
        let task = self.task(reference, RegistryAction::Pull)?;
        let mut url = task.url(&["tags", "list"])?;
        let mut tags = Vec::new();
        for _ in 0..limits::REGISTRY_TAG_PAGES {
            let response = task.send(RegistryRequest::get(url.clone()), &[StatusCode::OK]).await?;
            let next = response.headers().get(header::LINK).and_then(|link| next_page(link.to_str().ok()?));
            let bytes = task.body(response, limits::REGISTRY_TAGS_BYTES as u64).await?;
            let page: TagsAnswer = serde_json::from_slice(&bytes).map_err(|_| task.wrong("it has no list of tags"))?;
            tags.extend(page.tags.unwrap_or_default());
            match next {
                Some(next) => url = url.join(&next).map_err(|_| task.wrong("the registry names no next page"))?,
                None => return Ok(tags),
            }
            task.check_is_safe(&url)?;
        }
        Err(task.wrong(&format!("it has more than {} pages of tags; name the tag", limits::REGISTRY_TAG_PAGES)))
    }

    /// Publishes an artifact. Returns the digest of its manifest.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if the registry does not take it.
    pub async fn push(
        &self,
        reference: &OciReference,
        artifact: &PluginPackageArtifact,
    ) -> Result<Sha256Digest, PackageError> {
        let task = self.task(reference, RegistryAction::Push)?;
        let encoded = artifact.encode().map_err(|error| task.wrong(&error.to_string()))?;
        let layers = [(&encoded.component_descriptor, artifact.component.as_slice())];
        task.publish(&encoded.manifest, (&encoded.config_descriptor, encoded.config.as_slice()), layers).await
    }

    fn task<'a>(
        &'a self,
        reference: &'a OciReference,
        action: RegistryAction,
    ) -> Result<RegistryTask<'a>, PackageError> {
        let home = reference.origin().ok_or_else(|| PackageError::Artifact {
            reference: reference.to_string(),
            why: "its registry is not a host".into(),
        })?;
        Ok(RegistryTask { client: self, reference, home, action })
    }
}

impl RegistryTask<'_> {
    /// Uploads the files of an artifact, then its manifest. Returns the digest of the manifest.
    async fn publish<'a>(
        &self,
        manifest: &[u8],
        (config_descriptor, config): (&OciDescriptor, &[u8]),
        layers: impl IntoIterator<Item = (&'a OciDescriptor, &'a [u8])>,
    ) -> Result<Sha256Digest, PackageError> {
        let OciVersion::Tag(tag) = &self.reference.version else {
            return Err(self.wrong("it is published under a tag, not under a digest"));
        };
        if manifest.len() > limits::REGISTRY_MANIFEST_BYTES || config.len() > limits::REGISTRY_CONFIG_BYTES {
            return Err(self.wrong("what it says of itself is larger than registries accept"));
        }
        self.upload(config_descriptor, config).await?;
        for (descriptor, bytes) in layers {
            self.upload(descriptor, bytes).await?;
        }
        let url = self.url(&["manifests", tag])?;
        let request =
            RegistryRequest { method: Method::PUT, url, accept: None, content: Some((MANIFEST_TYPE, manifest)) };
        self.send(request, &[StatusCode::CREATED, StatusCode::OK]).await?;
        Ok(Sha256Digest::of(manifest))
    }

    fn wrong(&self, why: &str) -> PackageError {
        PackageError::Artifact { reference: self.reference.to_string(), why: why.to_owned() }
    }

    fn failed(&self, fault: Fault) -> PackageError {
        let (verb, reference) = (self.action.verb(), self.reference.to_string());
        PackageError::Registry { verb, reference, registry: self.reference.registry.clone(), fault }
    }

    /// Returns the address of a part of the repository.
    fn url(&self, path: &[&str]) -> Result<Url, PackageError> {
        let mut url = self.home.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => {
                segments.clear().push("v2").extend(self.reference.repository.split('/')).extend(path);
            }
            Err(()) => return Err(self.wrong("its registry is not a host")),
        }
        Ok(url)
    }

    /// Gets the manifest, and its digest.
    async fn manifest(&self) -> Result<(Sha256Digest, OciManifest), PackageError> {
        let version = self.reference.version.to_string();
        let request = RegistryRequest {
            accept: Some(MANIFEST_TYPE),
            ..RegistryRequest::get(self.url(&["manifests", &version])?)
        };
        let response = self.send(request, &[StatusCode::OK]).await?;
        let header = response.headers().get("docker-content-digest").and_then(|value| value.to_str().ok());
        let header_digest = header.and_then(Sha256Digest::parse);
        let bytes = self.body(response, limits::REGISTRY_MANIFEST_BYTES as u64).await?;
        let found = Sha256Digest::of(&bytes);
        let named = match &self.reference.version {
            OciVersion::Digest(digest) => Some(*digest),
            OciVersion::Tag(_) => header_digest,
        };
        self.check(named.unwrap_or(found), found)?;
        let manifest = serde_json::from_slice(&bytes).map_err(|_| self.wrong("it has no manifest of one artifact"))?;
        Ok((found, manifest))
    }

    /// Gets a file of the artifact.
    async fn blob(&self, descriptor: &OciDescriptor, most: u64) -> Result<Vec<u8>, PackageError> {
        let named = Sha256Digest::parse(&descriptor.digest)
            .ok_or_else(|| self.wrong("its manifest names a digest that is not SHA-256"))?;
        if descriptor.size > most {
            return Err(PackageError::TooLarge { of: self.reference.to_string(), most });
        }
        let request = RegistryRequest::get(self.url(&["blobs", &descriptor.digest])?);
        let response = self.send(request, &[StatusCode::OK]).await?;
        let bytes = self.body(response, descriptor.size).await?;
        self.check(named, Sha256Digest::of(&bytes))?;
        Ok(bytes)
    }

    fn check(&self, named: Sha256Digest, found: Sha256Digest) -> Result<(), PackageError> {
        match named == found {
            true => Ok(()),
            false => Err(PackageError::OtherBlob { reference: self.reference.to_string(), named, found }),
        }
    }

    /// Reads a body of at most `most` bytes.
    async fn body(&self, response: HttpResponse, most: u64) -> Result<Vec<u8>, PackageError> {
        let mut bytes = Vec::new();
        let mut stream = response.into_stream();
        while let Some(chunk) = stream.next().await {
            bytes.extend(chunk.map_err(|fault| self.failed(fault))?);
            if bytes.len() as u64 > most {
                return Err(PackageError::TooLarge { of: self.reference.to_string(), most });
            }
        }
        Ok(bytes)
    }

    /// Uploads a file, unless the registry has it.
    async fn upload(&self, descriptor: &OciDescriptor, bytes: &[u8]) -> Result<(), PackageError> {
        let url = self.url(&["blobs", &descriptor.digest])?;
        let head = RegistryRequest { method: Method::HEAD, ..RegistryRequest::get(url) };
        let response = self.send(head, &[StatusCode::OK, StatusCode::NOT_FOUND]).await?;
        if response.status() == StatusCode::OK {
            return Ok(());
        }
        let mut start = self.url(&["blobs", "uploads"])?;
        // The protocol has the slash at the end.
        if let Ok(mut segments) = start.path_segments_mut() {
            segments.push("");
        }
        let empty = Some((BYTES_TYPE, &[][..]));
        let request = RegistryRequest { method: Method::POST, url: start.clone(), accept: None, content: empty };
        let response = self.send(request, &[StatusCode::ACCEPTED]).await?;
        let mut url =
            self.location(&start, &response)?.ok_or_else(|| self.wrong("the registry names no place for its files"))?;
        url.query_pairs_mut().append_pair("digest", &descriptor.digest);
        let content = Some((BYTES_TYPE, bytes));
        let request = RegistryRequest { method: Method::PUT, url, accept: None, content };
        self.send(request, &[StatusCode::CREATED, StatusCode::NO_CONTENT]).await?;
        Ok(())
    }

    /// Returns the address that a response leads to. Only a registry on this machine leads to addresses without TLS.
    fn location(&self, from: &Url, response: &HttpResponse) -> Result<Option<Url>, PackageError> {
        let Some(location) = response.headers().get(header::LOCATION) else { return Ok(None) };
        let url = location.to_str().ok().and_then(|location| from.join(location).ok());
        let url = url.ok_or_else(|| self.wrong("the registry leads to something that is not an address"))?;
        self.check_is_safe(&url)?;
        Ok(Some(url))
    }

    fn check_is_safe(&self, url: &Url) -> Result<(), PackageError> {
        match is_safe(url, &self.home) {
            true => Ok(()),
            false => Err(self.wrong("the registry leads to an address without TLS")),
        }
    }

    /// Sends a request, logs in if the registry asks for it, and follows redirects. A status that is not `wanted` is an error.
    async fn send(
        &self,
        mut request: RegistryRequest<'_>,
        wanted: &[StatusCode],
    ) -> Result<HttpResponse, PackageError> {
        let mut has_logged_in = false;
        let mut redirects = 0;
        loop {
            // The login goes to the registry alone: redirects may lead to a file server of somebody else.
            let is_home = request.url.origin() == self.home.origin();
            let accept = request.accept.map(|accept| ("accept".to_owned(), Secret::new(accept)));
            let sent = HttpRequest {
                auth: if is_home { self.logged_in() } else { None },
                headers: accept.into_iter().collect(),
                total: limits::REGISTRY_TIME,
                ..HttpRequest::new(request.url.clone())
            };
            let content = request.content.map(|(kind, bytes)| (kind, bytes.to_vec()));
            let response = self.client.http.exchange_content(request.method.clone(), &sent, content).await;
            let response = response.map_err(|fault| self.failed(fault))?;
            let status = response.status();
            if wanted.contains(&status) {
                return Ok(response);
            }
            if status == StatusCode::UNAUTHORIZED && is_home && !has_logged_in {
                has_logged_in = true;
                self.log_in(&response).await?;
                continue;
            }
            if status.is_redirection()
                && let Some(url) = self.location(&request.url, &response)?
            {
                redirects += 1;
                if redirects > limits::REGISTRY_REDIRECTS {
                    return Err(
                        self.wrong(&format!("the registry redirects more than {} times", limits::REGISTRY_REDIRECTS))
                    );
                }
                request.url = url;
                continue;
            }
            let server = origin(&request.url);
            let text = response.beginning(limits::ERROR_BODY_BYTES).await;
            let text = complaint(&String::from_utf8_lossy(&text));
            return Err(self.failed(fault_of_status(
                &server,
                status.as_u16(),
                None,
                &text,
                &self.client.http.secrets(&sent),
            )));
        }
    }

    fn key(&self) -> LoginKey {
        (self.reference.registry.clone(), self.reference.repository.clone(), self.action)
    }

    fn logged_in(&self) -> Option<AuthHeader> {
        self.client.logged_in.lock().unwrap_or_else(PoisonError::into_inner).get(&self.key()).cloned()
    }

    /// Gets the credential that the registry's challenge asks for, and remembers it. If there is no login, nothing is
    /// remembered, and the next attempt fails.
    async fn log_in(&self, response: &HttpResponse) -> Result<(), PackageError> {
        let headers = response.headers().get_all(header::WWW_AUTHENTICATE).iter();
        let challenge = headers.filter_map(|value| value.to_str().ok()).find_map(AuthChallenge::parse);
        let login = self.client.logins.find(self.reference).await?;
        let auth = match challenge {
            None => return Err(self.wrong("the registry asks for a login of an unknown kind")),
            Some(AuthChallenge::Basic) => login.and_then(|login| login.basic()),
            Some(AuthChallenge::Bearer { realm, service, scope }) => {
                Some(self.token(&realm, service.as_deref(), scope, login).await?)
            }
        };
        if let Some(auth) = auth {
            self.client.logged_in.lock().unwrap_or_else(PoisonError::into_inner).insert(self.key(), auth);
        }
        Ok(())
    }

    /// Gets a token of the server that the registry names.
    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: Option<String>,
        login: Option<RegistryLogin>,
    ) -> Result<AuthHeader, PackageError> {
        let mut url = Url::parse(realm).map_err(|_| self.wrong("the registry names no server for tokens"))?;
        self.check_is_safe(&url)?;
        let scope =
            scope.unwrap_or_else(|| format!("repository:{}:{}", self.reference.repository, self.action.permissions()));
        let named = [("service", service), ("scope", Some(scope.as_str()))];
        let named = named.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let answer = match &login {
            Some(RegistryLogin::IdentityToken(token)) => {
                let fixed = [("grant_type", "refresh_token"), ("client_id", "shelly-host")];
                let pairs = named.chain(fixed).chain([("refresh_token", token.expose())]);
                let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish().into_bytes();
                let request = HttpRequest { total: limits::REGISTRY_TIME, ..HttpRequest::new(url) };
                self.client.http.upload(&request, "application/x-www-form-urlencoded", form).await
            }
            login => {
                url.query_pairs_mut().extend_pairs(named);
                let auth = login.as_ref().and_then(RegistryLogin::basic);
                let request = HttpRequest { auth, total: limits::REGISTRY_TIME, ..HttpRequest::new(url) };
                self.client.http.get(&request).await
            }
        };
        let answer = answer.map_err(|fault| self.failed(fault))?;
        let bytes = answer.read(limits::REGISTRY_ANSWER_BYTES).await.map_err(|fault| self.failed(fault))?;
        let answer: TokenAnswer =
            serde_json::from_slice(&bytes).map_err(|_| self.wrong("the server for tokens gave none"))?;
        let token =
            answer.token.or(answer.access_token).ok_or_else(|| self.wrong("the server for tokens gave none"))?;
        Ok(AuthHeader::bearer(Secret::new(token)))
    }
}

/// Returns the address of the next page in a `Link` header.
fn next_page(link: &str) -> Option<String> {
    let (address, relation) = link.trim().strip_prefix('<')?.split_once('>')?;
    relation.contains("rel=\"next\"").then(|| address.to_owned())
}

/// Returns the message in the error of a registry, or the text as it is.
fn complaint(text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let error = &value["errors"][0];
    let message = error["message"].as_str().filter(|message| !message.is_empty()).or(error["code"].as_str());
    message.map_or_else(|| text.to_owned(), str::to_owned)
}

mod agent_package_transfer;
#[cfg(test)]
mod tests;
