//! A small OCI registry: the part of the distribution protocol that pushes and pulls artifacts, with tokens, uploads in two
//! steps, and files that lie on another server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use shelly_host::digest::Sha256Digest;
use tokio::runtime::Runtime;

use crate::egress::server::{Answer, Heard, Server};

/// The content of a registry.
#[derive(Default)]
struct RegistryContent {
    blobs: BTreeMap<String, Vec<u8>>,
    /// By repository and tag or digest.
    manifests: BTreeMap<String, Vec<u8>>,
    needs_login: bool,
}

/// A registry on loopback. It runs until it is dropped.
pub struct Registry {
    /// Its host and port.
    pub host: String,
    content: Arc<Mutex<RegistryContent>>,
    _server: Server,
    _runtime: Runtime,
}

/// The user and the password of the registry.
const LOGIN: &str = "me:open sesame";

impl Registry {
    /// Starts a registry that anybody may use.
    pub fn start() -> Self {
        let content = Arc::new(Mutex::new(RegistryContent::default()));
        let runtime = Runtime::new().unwrap();
        let shared = Arc::clone(&content);
        let server = runtime.block_on(Server::start(move |heard| shared.lock().unwrap().answer(heard)));
        Self { host: format!("127.0.0.1:{}", server.port), content, _server: server, _runtime: runtime }
    }

    /// Starts a registry that one user may use.
    pub fn with_login() -> Self {
        let registry = Self::start();
        registry.content.lock().unwrap().needs_login = true;
        registry
    }

    /// Returns the content of a file with the login, as docker and podman write it.
    pub fn login_file(&self) -> String {
        json!({"auths": {&self.host: {"auth": STANDARD.encode(LOGIN)}}}).to_string()
    }

    /// Returns the name of an artifact here.
    pub fn artifact(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.host)
    }

    /// Puts an artifact here that another tool has published, with one component and nothing else.
    pub fn put_component(&self, name: &str, component: &[u8]) {
        let mut content = self.content.lock().unwrap();
        let mut descriptor = |kind: &str, bytes: &[u8]| {
            let digest = Sha256Digest::of(bytes).to_string();
            content.blobs.insert(digest.clone(), bytes.to_vec());
            json!({"mediaType": kind, "digest": digest, "size": bytes.len()})
        };
        let config = descriptor("application/vnd.wasm.config.v0+json", br#"{"architecture": "wasm", "os": "wasip2"}"#);
        let layers = [descriptor("application/wasm", component)];
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string();
        content.manifests.insert(name.replace(':', "/"), manifest.into_bytes());
    }

    /// Changes one byte of each component, as somebody who has broken into the registry would.
    pub fn alter_components(&self) {
        for bytes in self.content.lock().unwrap().blobs.values_mut().filter(|bytes| bytes.starts_with(b"\0asm")) {
            *bytes.last_mut().unwrap() ^= 1;
        }
    }

    /// Returns the manifest of an artifact.
    pub fn manifest(&self, name: &str) -> Value {
        serde_json::from_slice(&self.content.lock().unwrap().manifests[&name.replace(':', "/")]).unwrap()
    }
}

/// Returns an answer without a body, which says how long the body would be.
fn head(status: &str, length: usize) -> Answer {
    Answer::Says(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n").into_bytes())
}

impl RegistryContent {
    fn answer(&mut self, heard: &Heard) -> Answer {
        let method = heard.line().split(' ').next().unwrap().to_owned();
        let (path, query) = heard.path().split_once('?').unwrap_or((heard.path(), ""));
        let query: BTreeMap<_, _> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        if path == "/token" {
            return give_token(heard, &query);
        }
        if let Some(digest) = path.strip_prefix("/storage/") {
            // Where files lie, a login at the registry is worth nothing, and must not arrive.
            assert_eq!(heard.header("authorization"), None);
            return Answer::of("200 OK", &self.blobs[digest]);
        }
        let Some(path) = path.strip_prefix("/v2/") else { return Answer::of("404 Not Found", "") };
        if let Some(name) = path.strip_suffix("/tags/list") {
            return self.refusal(heard, &method, name).unwrap_or_else(|| self.tags(name));
        }
        let (name, part) = match (path.split_once("/blobs/"), path.split_once("/manifests/")) {
            (Some((name, part)), _) => (name, format!("blobs/{part}")),
            (None, Some((name, part))) => (name, format!("manifests/{part}")),
            (None, None) => return Answer::of("404 Not Found", ""),
        };
        if let Some(refusal) = self.refusal(heard, &method, name) {
            return refusal;
        }
        match (method.as_str(), part.split_once('/').unwrap()) {
            ("POST", ("blobs", "uploads/")) => {
                Answer::of(&format!("202 Accepted\r\nlocation: /v2/{name}/blobs/uploads/1?state=begun"), "")
            }
            ("PUT", ("blobs", "uploads/1")) => {
                assert_eq!(query["state"], "begun");
                let digest = Sha256Digest::of(&heard.body).to_string();
                if query["digest"] != digest {
                    return Answer::of("400 Bad Request", r#"{"errors": [{"code": "DIGEST_INVALID"}]}"#);
                }
                self.blobs.insert(digest, heard.body.clone());
                Answer::of("201 Created", "")
            }
            ("HEAD", ("blobs", digest)) => match self.blobs.get(digest) {
                Some(bytes) => head("200 OK", bytes.len()),
                None => head("404 Not Found", 0),
            },
            ("GET", ("blobs", digest)) if self.blobs.contains_key(digest) => {
                let port = heard.header("host").unwrap().rsplit(':').next().unwrap();
                Answer::redirect(307, &format!("http://localhost:{port}/storage/{digest}"))
            }
            ("PUT", ("manifests", tag)) => self.put_manifest(name, tag, heard),
            ("GET", ("manifests", version)) => match self.manifests.get(&format!("{name}/{version}")) {
                Some(bytes) => {
                    let digest = Sha256Digest::of(bytes);
                    let kind = "application/vnd.oci.image.manifest.v1+json";
                    assert_eq!(heard.all("accept"), [kind]);
                    Answer::of(&format!("200 OK\r\ndocker-content-digest: {digest}\r\ncontent-type: {kind}"), bytes)
                }
                None => Answer::of(
                    "404 Not Found",
                    r#"{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}"#,
                ),
            },
            _ => Answer::of("404 Not Found", ""),
        }
    }

    /// Lists the tags of a repository.
    fn tags(&self, name: &str) -> Answer {
        let below = self.manifests.keys().filter_map(|key| key.strip_prefix(name)?.strip_prefix('/'));
        let tags: Vec<_> = below.filter(|version| !version.contains(['/', ':'])).collect();
        Answer::of("200 OK", json!({"name": name, "tags": tags}).to_string())
    }

    /// Takes a manifest whose files are all there.
    fn put_manifest(&mut self, name: &str, tag: &str, heard: &Heard) -> Answer {
        let manifest: Value = serde_json::from_slice(&heard.body).unwrap();
        let files = manifest["layers"].as_array().unwrap().iter().chain([&manifest["config"]]);
        for file in files {
            let there = self.blobs.get(file["digest"].as_str().unwrap());
            if there.is_none_or(|bytes| file["size"] != bytes.len()) {
                return Answer::of("400 Bad Request", r#"{"errors": [{"code": "MANIFEST_BLOB_UNKNOWN"}]}"#);
            }
        }
        for version in [tag.to_owned(), Sha256Digest::of(&heard.body).to_string()] {
            self.manifests.insert(format!("{name}/{version}"), heard.body.clone());
        }
        Answer::of("201 Created", "")
    }

    /// Asks for a token that allows what is asked for.
    fn refusal(&self, heard: &Heard, method: &str, name: &str) -> Option<Answer> {
        let permissions = if matches!(method, "GET" | "HEAD") { "pull" } else { "pull,push" };
        let token = heard.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let is_allowed = token.is_some_and(|token| {
            let allowed = token.strip_prefix(&format!("repository:{name}:"));
            allowed.is_some_and(|allowed| allowed.starts_with(permissions))
        });
        (self.needs_login && !is_allowed).then(|| {
            let host = heard.header("host").unwrap();
            let scope = format!("repository:{name}:{permissions}");
            let ask = format!("Bearer realm=\"http://{host}/token\",service=\"registry.test\",scope=\"{scope}\"");
            Answer::of(&format!("401 Unauthorized\r\nwww-authenticate: {ask}"), "")
        })
    }
}

/// Gives a token to whoever has the password. The token is its own permission.
fn give_token(heard: &Heard, query: &BTreeMap<String, String>) -> Answer {
    assert_eq!(query["service"], "registry.test");
    let login = format!("Basic {}", STANDARD.encode(LOGIN));
    match heard.header("authorization").is_some_and(|given| given == login) {
        true => Answer::of("200 OK", json!({"token": query["scope"]}).to_string()),
        false => Answer::of("401 Unauthorized", r#"{"errors": [{"code": "DENIED", "message": "wrong password"}]}"#),
    }
}
