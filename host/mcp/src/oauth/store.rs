//! The store of logins, which outlives a run.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};
use url::Url;

use shelly_core::{
    digest::Sha256Digest,
    error::{Fault, without_number},
    files::{self, FileReadError},
    limits,
};
use shelly_net::Secret;

/// A store of tokens: a folder with one file for each server, or the memory of this process. Clones share it.
#[derive(Clone)]
pub struct TokenStore {
    backend: TokenStoreBackend,
    /// The newest credentials that were read or written, with their names.
    known: Arc<Mutex<VecDeque<(String, Secret)>>>,
}

#[derive(Clone)]
enum TokenStoreBackend {
    Folder(PathBuf),
    Memory(Arc<MemoryTokenStore>),
}

#[derive(Default)]
struct MemoryTokenStore {
    kept: Mutex<HashMap<String, StoredLogin>>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl fmt::Debug for TokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backend {
            TokenStoreBackend::Folder(folder) => f.debug_tuple("TokenStore").field(folder).finish(),
            TokenStoreBackend::Memory(_) => f.write_str("TokenStore"),
        }
    }
}

/// The stored login at one server.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredLogin {
    /// The server's URL, for people who read the file.
    pub server: String,
    /// The authorization server that knows the client as `client_id`.
    pub issuer: Option<String>,
    pub client_id: String,
    pub client_secret: Option<String>,
    pub access_token: Option<String>,
    pub refresh_token: Option<String>,
    /// The times, in seconds since 1970, at which the access token expires and at which it is renewed.
    pub expires_at: Option<u64>,
    pub renew_at: Option<u64>,
    /// The granted scopes; the requested ones, if the server did not name them.
    pub scopes: Vec<String>,
    /// Scopes that a request lacked.
    pub wanted: Vec<String>,
}

impl fmt::Debug for StoredLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("server", &self.server).field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

impl StoredLogin {
    /// Returns the access token unless it is due for renewal.
    pub fn token(&self) -> Option<Secret> {
        let is_fresh = self.renew_at.is_none_or(|renew_at| now() < renew_at);
        self.access_token.as_ref().filter(|_| is_fresh).map(Secret::new)
    }

    /// Sets the lifetime of the access token, from now on; with `None` it is not renewed before it is refused.
    pub fn lives(&mut self, seconds: Option<u64>) {
        let early = |life: u64| limits::OAUTH_EARLY.as_secs().min(life / 2);
        self.expires_at = seconds.map(|life| now().saturating_add(life));
        self.renew_at = seconds.map(|life| now().saturating_add(life - early(life)));
    }

    /// Deletes the tokens and keeps the rest.
    pub fn forget_tokens(&mut self) {
        (self.access_token, self.refresh_token, self.expires_at, self.renew_at) = (None, None, None, None);
    }

    /// Returns the secrets, which no message may show.
    pub fn secrets(&self) -> Vec<Secret> {
        let all = [&self.access_token, &self.refresh_token, &self.client_secret];
        all.into_iter().flatten().map(Secret::new).collect()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Held while the tokens of a store are renewed.
pub(super) struct TokenRenewalLock {
    _held: Box<dyn Send>,
}

impl TokenStore {
    /// Returns a store in this folder, which is created, readable by its owner alone, when the first login is stored.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::of(TokenStoreBackend::Folder(folder.into()))
    }

    /// Returns a store in the memory of this process.
    pub fn in_memory() -> Self {
        Self::of(TokenStoreBackend::Memory(Arc::default()))
    }

    fn of(backend: TokenStoreBackend) -> Self {
        Self { backend, known: Arc::default() }
    }

    /// Returns the tokens and client secrets that this store and its clones have read or written, each with the name that
    /// may be shown in its place. At most the newest [`limits::SECRETS_KEPT`].
    pub fn known_secrets(&self) -> Vec<(String, Secret)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn note(&self, server: &Url, login: &StoredLogin) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for secret in login.secrets() {
            let named = (format!("login.{}", server.host_str().unwrap_or_default()), secret);
            if known.contains(&named) {
                continue;
            }
            if known.len() >= limits::SECRETS_KEPT {
                known.pop_front();
            }
            known.push_back(named);
        }
    }

    pub(super) async fn read(&self, server: &Url) -> Result<Option<StoredLogin>, Fault> {
        let login = match &self.backend {
            TokenStoreBackend::Folder(folder) => {
                let (folder, name) = (folder.clone(), file_name(server));
                blocking(move || read(&folder, &name)).await?
            }
            TokenStoreBackend::Memory(memory) => memory.kept().get(server.as_str()).cloned(),
        };
        login.iter().for_each(|login| self.note(server, login));
        Ok(login)
    }

    pub(super) async fn write(&self, server: &Url, kept: &StoredLogin) -> Result<(), Fault> {
        let mut kept = kept.clone();
        kept.server = server.to_string();
        self.note(server, &kept);
        match &self.backend {
            TokenStoreBackend::Folder(folder) => {
                let path = folder.join(file_name(server));
                let json = serde_json::to_vec_pretty(&kept).map_err(|error| Fault::other(error.to_string()))?;
                if json.len() as u64 > limits::OAUTH_FILE_BYTES {
                    let message = format!("the stored login has more than {} bytes", limits::OAUTH_FILE_BYTES);
                    return Err(Fault::TooLarge { message });
                }
                blocking(move || {
                    files::replace(&path, &json).map_err(|error| unusable(&path, "be written", &error.to_string()))
                })
                .await
            }
            TokenStoreBackend::Memory(memory) => {
                memory.kept().insert(server.as_str().into(), kept);
                Ok(())
            }
        }
    }

    /// Deletes the login at a server; returns `true` if there was one.
    pub(super) async fn forget(&self, server: &Url) -> Result<bool, Fault> {
        match &self.backend {
            TokenStoreBackend::Folder(folder) => {
                let path = folder.join(file_name(server));
                blocking(move || match std::fs::remove_file(&path) {
                    Ok(()) => Ok(true),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
                    Err(error) => Err(unusable(&path, "be deleted", &error.to_string())),
                })
                .await
            }
            TokenStoreBackend::Memory(memory) => Ok(memory.kept().remove(server.as_str()).is_some()),
        }
    }

    /// Waits until no other task or process renews tokens of this store.
    pub(super) async fn lock(&self) -> Result<TokenRenewalLock, Fault> {
        let until = Instant::now() + limits::OAUTH_LOCK_TIME;
        let late = |_| Fault::Unavailable {
            message: format!("another process has been renewing tokens for {:?}", limits::OAUTH_LOCK_TIME),
            after: None,
        };
        let held: Box<dyn Send> = match &self.backend {
            TokenStoreBackend::Folder(folder) => {
                let folder = folder.clone();
                let locking = blocking(move || {
                    let wrong = |error: std::io::Error| unusable(&folder, "be used", &error.to_string());
                    files::create_private_folders(&folder).map_err(wrong)?;
                    files::lock_folder(&folder).map_err(wrong)
                });
                Box::new(timeout_at(until, locking).await.map_err(late)??)
            }
            TokenStoreBackend::Memory(memory) => {
                Box::new(timeout_at(until, Arc::clone(&memory.lock).lock_owned()).await.map_err(late)?)
            }
        };
        Ok(TokenRenewalLock { _held: held })
    }
}

impl MemoryTokenStore {
    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<String, StoredLogin>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_name(server: &Url) -> String {
    format!("{}.json", Sha256Digest::of(server.as_str()).hex())
}

fn read(folder: &Path, name: &str) -> Result<Option<StoredLogin>, Fault> {
    let path = folder.join(name);
    let text = match files::read(&path, folder, limits::OAUTH_FILE_BYTES) {
        Ok(text) => text,
        Err(FileReadError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(&path, "be read", &error.to_string())),
    };
    // Without the parser's message, which would quote the content.
    let kept = serde_json::from_str(&text).map_err(|error| {
        let place = format!("line {} is damaged; delete the file and log in again", error.line());
        unusable(&path, "be read", &place)
    })?;
    Ok(Some(kept))
}

fn unusable(path: &Path, what: &str, why: &str) -> Fault {
    let path = path.display().to_string();
    Fault::other(format!("the login in {} cannot {what}: {}", path.escape_debug(), without_number(why)))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Fault> + Send + 'static) -> Result<T, Fault> {
    spawn_blocking(work).await.map_err(|_| Fault::other("cannot use the store of logins"))?
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn server() -> Url {
        "https://mcp.example/x?team=red".parse().unwrap()
    }

    fn kept() -> StoredLogin {
        StoredLogin {
            client_id: "c".into(),
            access_token: Some("at-secret".into()),
            wanted: vec!["w".into()],
            ..StoredLogin::default()
        }
    }

    #[tokio::test]
    async fn stored_login_is_read_back_for_its_server_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/mcp");
        for store in [TokenStore::in_folder(&path), TokenStore::in_memory()] {
            assert_eq!(store.read(&server()).await, Ok(None));
            drop(store.lock().await.unwrap());
            store.write(&server(), &kept()).await.unwrap();
            let found = store.clone().read(&server()).await.unwrap().unwrap();
            assert_eq!(found, StoredLogin { server: server().to_string(), ..kept() });
            assert_eq!(store.read(&"https://mcp.example/x".parse().unwrap()).await, Ok(None));
            assert!(!format!("{store:?} {found:?}").contains("at-secret"));
            assert_eq!(store.known_secrets(), [("login.mcp.example".to_owned(), Secret::new("at-secret"))]);
            assert!(store.forget(&server()).await.unwrap() && !store.forget(&server()).await.unwrap());
            assert_eq!(store.read(&server()).await, Ok(None));
        }
        let store = TokenStore::in_folder(&path);
        store.write(&server(), &kept()).await.unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(&path.join(file_name(&server())))), (0o700, 0o600));
        }
    }

    #[tokio::test]
    async fn known_secrets_of_logins_are_bounded() {
        let store = TokenStore::in_memory();
        for number in 0..=limits::SECRETS_KEPT {
            let access_token = Some(format!("token-{number}"));
            store.write(&server(), &StoredLogin { access_token, ..kept() }).await.unwrap();
        }
        let known = store.known_secrets();
        assert_eq!((known.len(), known[0].1.expose()), (limits::SECRETS_KEPT, "token-1"));
    }

    #[tokio::test]
    async fn token_renewal_lock_is_exclusive() {
        let folder = tempfile::tempdir().unwrap();
        for store in [TokenStore::in_folder(folder.path()), TokenStore::in_memory()] {
            let first = store.lock().await.unwrap();
            let mut second = Box::pin(store.lock());
            assert!((&mut second).now_or_never().is_none());
            drop(first);
            assert!(second.await.is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_forever() {
        let store = TokenStore::in_memory();
        let _first = store.lock().await.unwrap();
        let fault = store.lock().await.err().unwrap();
        assert_eq!(fault.to_string(), "another process has been renewing tokens for 120s");
    }

    #[tokio::test]
    async fn unreadable_login_file_error_hides_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let (store, path) = (TokenStore::in_folder(folder.path()), folder.path().join(file_name(&server())));
        let long = format!("{{\"server\": \"{}\"}}", "x".repeat(limits::OAUTH_FILE_BYTES as usize));
        for (text, why) in [
            ("{\n\"scopes\": \"at-secret\"}", "line 2 is damaged; delete the file and log in again"),
            ("at-secret", "line 1 is damaged"),
            (&long, "larger than 262144 bytes"),
        ] {
            std::fs::write(&path, text).unwrap();
            let fault = store.read(&server()).await.unwrap_err().to_string();
            assert!(fault.contains(why) && !fault.contains("at-secret") && fault.len() < 500, "{fault}");
        }
        let huge = StoredLogin { access_token: Some("x".repeat(limits::OAUTH_FILE_BYTES as usize)), ..kept() };
        assert!(matches!(store.write(&server(), &huge).await, Err(Fault::TooLarge { .. })));
    }

    #[test]
    fn tokens_are_renewed_before_they_end() {
        for (life, early) in [(3_600, 30), (20, 10), (1, 0), (0, 0)] {
            let mut kept = kept();
            kept.lives(Some(life));
            let (ends, renewed) = (kept.expires_at.unwrap(), kept.renew_at.unwrap());
            assert!(ends - renewed <= early + 1 && ends - renewed + 1 >= early, "{life}");
            assert_eq!(kept.token().is_some(), life > 0, "{life}");
        }
        let mut forever = kept();
        forever.lives(None);
        assert!(forever.token().is_some());
        forever.forget_tokens();
        assert!(forever.token().is_none() && forever.client_id == "c");
    }
}
