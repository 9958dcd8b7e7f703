//! TLS of the server: its certificate and the key of it, which are read from files.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    Error, ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::spawn_blocking,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use shelly_core::{
    digest::Sha256Digest,
    error::{legible, why_unreadable},
    files, limits,
};

/// The certificate with which a server proves its name, and its key. Clones share them.
#[derive(Clone)]
pub struct ServerTls(Arc<SharedTls>);

struct SharedTls {
    files: TlsFiles,
    loaded: RwLock<LoadedTls>,
}

/// The files of a certificate chain and of its key, in PEM.
#[derive(Debug, Clone)]
struct TlsFiles {
    certificate: PathBuf,
    key: PathBuf,
}

/// The content of the files.
#[derive(Debug)]
struct TlsFileContents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

struct LoadedTls {
    config: Arc<ServerConfig>,
    /// The digest of the files from which it was made.
    digest: Sha256Digest,
}

/// The reason why a certificate or its key cannot be used. No content of a file is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum ServerTlsError {
    /// A file cannot be read.
    #[error("cannot read `{path}`: {why}")]
    Unreadable { path: String, why: String },
    /// The file of the certificate has none.
    #[error("`{path}` has no certificate in PEM")]
    NoCertificate { path: String },
    /// A certificate is damaged.
    #[error("the certificate in `{path}` cannot be used: {why}")]
    Certificate { path: String, why: String },
    /// The file of the key has none.
    #[error("`{path}` has no private key in PEM")]
    NoKey { path: String },
    /// The key needs a passphrase.
    #[error("the private key in `{path}` is encrypted")]
    EncryptedKey { path: String },
    /// The key is damaged, or of an unknown kind.
    #[error("the private key in `{path}` cannot be used: {why}")]
    Key { path: String, why: String },
    /// The key is that of another certificate.
    #[error("the private key in `{key}` is not that of the certificate in `{certificate}`")]
    Mismatch { certificate: String, key: String },
}

impl ServerTlsError {
    /// Returns a way to mend it.
    pub fn mend(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "name a file that this program can read",
            Self::NoCertificate { .. } => "name the file that has `-----BEGIN CERTIFICATE-----`",
            Self::Certificate { .. } => "the file must have the certificate of the server, then those that sign it",
            Self::NoKey { .. } => "name the file that has `-----BEGIN PRIVATE KEY-----`",
            Self::EncryptedKey { .. } => {
                "write it without a passphrase, for this program alone: openssl pkey -in KEY -out key.pem; chmod 600 key.pem"
            }
            Self::Key { .. } => "use an RSA key of at least 2,048 bits, or a key of P-256, P-384 or Ed25519",
            Self::Mismatch { .. } => "name the key with which the certificate was requested",
        }
    }
}

impl ServerTls {
    /// Reads the certificate chain, the certificate of the server first, and its key.
    ///
    /// # Errors
    ///
    /// A [`ServerTlsError`].
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, ServerTlsError> {
        let files = TlsFiles { certificate: certificate.to_owned(), key: key.to_owned() };
        let contents = files.read()?;
        let loaded = LoadedTls { config: files.config(&contents)?, digest: contents.digest() };
        Ok(Self(Arc::new(SharedTls { files, loaded: RwLock::new(loaded) })))
    }

    /// Reads the files again whenever they have changed, for connections from then on. As long as they cannot be used, the
    /// last certificate stays, and `warn` is told why. Never ends.
    pub async fn reload_changed(&self, warn: impl Fn(&ServerTlsError)) {
        let mut refused: Option<ServerTlsError> = None;
        loop {
            sleep(limits::SERVE_TLS_LOOK).await;
            let tls = self.clone();
            // The runtime ends.
            let Ok(reloaded) = spawn_blocking(move || tls.reload_if_changed()).await else { return };
            let error = reloaded.err();
            if let Some(error) = error.as_ref().filter(|error| refused.as_ref() != Some(*error)) {
                warn(error);
            }
            refused = error;
        }
    }

    /// Reads the files, and takes them over if they have changed.
    fn reload_if_changed(&self) -> Result<(), ServerTlsError> {
        let SharedTls { files, loaded } = &*self.0;
        let contents = files.read()?;
        let digest = contents.digest();
        if loaded.read().unwrap_or_else(PoisonError::into_inner).digest == digest {
            return Ok(());
        }
        let config = files.config(&contents)?;
        *loaded.write().unwrap_or_else(PoisonError::into_inner) = LoadedTls { config, digest };
        Ok(())
    }

    /// Performs the handshake with a client; `None` if it fails, or takes longer than [`limits::SERVE_HANDSHAKE_TIME`].
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Option<TlsStream<S>> {
        let config = Arc::clone(&self.0.loaded.read().unwrap_or_else(PoisonError::into_inner).config);
        let handshake = TlsAcceptor::from(config).accept(stream);
        timeout(limits::SERVE_HANDSHAKE_TIME, handshake).await.ok()?.ok()
    }
}

impl TlsFiles {
    fn read(&self) -> Result<TlsFileContents, ServerTlsError> {
        let read = |path: &Path| {
            read_file(path)
                .map_err(|error| ServerTlsError::Unreadable { path: shown(path), why: why_unreadable(&error) })
        };
        Ok(TlsFileContents { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    /// Returns what a server needs to speak TLS with these files.
    fn config(&self, contents: &TlsFileContents) -> Result<Arc<ServerConfig>, ServerTlsError> {
        let bad_certificate = |why: String| ServerTlsError::Certificate { path: shown(&self.certificate), why };
        let bad_key = |why: String| ServerTlsError::Key { path: shown(&self.key), why };
        let chain = CertificateDer::pem_slice_iter(&contents.certificate).collect::<Result<Vec<_>, pem::Error>>();
        let chain = chain.map_err(|_| bad_certificate("it is not valid PEM".into()))?;
        if chain.is_empty() {
            return Err(ServerTlsError::NoCertificate { path: shown(&self.certificate) });
        }
        if is_encrypted(&contents.key) {
            return Err(ServerTlsError::EncryptedKey { path: shown(&self.key) });
        }
        let key = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|error| match error {
            pem::Error::NoItemsFound => ServerTlsError::NoKey { path: shown(&self.key) },
            _ => bad_key("it is not valid PEM".into()),
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| bad_key(error.to_string()))?;
        let config = builder.with_no_client_auth().with_single_cert(chain, key);
        let mut config = config.map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                ServerTlsError::Mismatch { certificate: shown(&self.certificate), key: shown(&self.key) }
            }
            Error::InvalidCertificate(why) => bad_certificate(why.to_string()),
            error => bad_key(error.to_string()),
        })?;
        config.alpn_protocols = vec![b"http/1.1".into()];
        Ok(Arc::new(config))
    }
}

impl TlsFileContents {
    fn digest(&self) -> Sha256Digest {
        let [certificate, key] = [&self.certificate, &self.key].map(|content| Sha256Digest::of(content).0);
        Sha256Digest::of([certificate, key].concat())
    }
}

/// Returns a path for a message.
fn shown(path: &Path) -> String {
    legible(&path.display().to_string())
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    files::open(path)?.take(limits::SERVE_TLS_FILE_BYTES + 1).read_to_end(&mut content)?;
    match content.len() as u64 > limits::SERVE_TLS_FILE_BYTES {
        true => Err(io::Error::other(format!("the file has more than {} bytes", limits::SERVE_TLS_FILE_BYTES))),
        false => Ok(content),
    }
}

/// Returns `true` for a key that needs a passphrase, in either of its two forms.
fn is_encrypted(key: &[u8]) -> bool {
    let text = String::from_utf8_lossy(key);
    text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
        || text.lines().any(|line| line.starts_with("Proc-Type:") && line.contains("ENCRYPTED"))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
    use tempfile::TempDir;
    use tokio::time::Instant;
    use tokio_rustls::TlsConnector;

    use super::*;

    /// The PEM of a certificate and its key, and the certificate as a client knows it.
    struct TestCertificate {
        certificate: String,
        key: String,
        der: CertificateDer<'static>,
    }

    fn certificate() -> TestCertificate {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        TestCertificate { certificate: cert.pem(), key: signing_key.serialize_pem(), der: cert.der().clone() }
    }

    fn write(folder: &TempDir, certificate: &str, key: &str) {
        fs::write(folder.path().join("cert.pem"), certificate).unwrap();
        fs::write(folder.path().join("key.pem"), key).unwrap();
    }

    fn read(folder: &TempDir) -> Result<ServerTls, ServerTlsError> {
        ServerTls::read(&folder.path().join("cert.pem"), &folder.path().join("key.pem"))
    }

    /// Returns `true` if a client that trusts this certificate alone is served.
    async fn serves(tls: &ServerTls, trusted: &TestCertificate) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.der.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let (client, server) = tokio::io::duplex(16 << 10);
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let (client, server) = tokio::join!(connector.connect(name, client), tls.accept(server));
        client.is_ok() && server.is_some()
    }

    #[tokio::test]
    async fn client_is_served_with_the_certificate_of_the_files() {
        let (folder, ours, other) = (tempfile::tempdir().unwrap(), certificate(), certificate());
        write(&folder, &ours.certificate, &ours.key);
        let tls = read(&folder).unwrap();
        assert!(serves(&tls, &ours).await);
        assert!(!serves(&tls, &other).await);
    }

    #[test]
    fn files_that_cannot_be_used_are_refused_with_a_reason() {
        let (folder, ours, other) = (tempfile::tempdir().unwrap(), certificate(), certificate());
        let refused = || read(&folder).err().unwrap();
        assert!(matches!(refused(), ServerTlsError::Unreadable { path, .. } if path.ends_with("cert.pem")));
        let broken = ours.certificate.replace("-----END CERTIFICATE-----", "");
        let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n\
                   -----END RSA PRIVATE KEY-----\n";
        let odd = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (certificate, key, says) in [
            ("", &*ours.key, "cert.pem` has no certificate in PEM"),
            (&*ours.key, &*ours.key, "cert.pem` has no certificate in PEM"),
            (&*broken, &*ours.key, "cert.pem` cannot be used: it is not valid PEM"),
            (empty, &*ours.key, "the certificate in"),
            (&*ours.certificate, "", "key.pem` has no private key in PEM"),
            (&*ours.certificate, &*ours.certificate, "key.pem` has no private key in PEM"),
            (&*ours.certificate, encrypted, "key.pem` is encrypted"),
            (&*ours.certificate, old, "key.pem` is encrypted"),
            (&*ours.certificate, odd, "the private key in"),
            (&*ours.certificate, &*other.key, "is not that of the certificate in"),
        ] {
            write(&folder, certificate, key);
            let error = refused();
            assert!(error.to_string().contains(says) && !error.mend().is_empty(), "{says}: {error}");
        }
        let long = "x".repeat(usize::try_from(limits::SERVE_TLS_FILE_BYTES).unwrap() + 1);
        write(&folder, &long, &ours.key);
        assert!(matches!(refused(), ServerTlsError::Unreadable { why, .. } if why.contains("more than 262144 bytes")));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_client_does_not_keep_its_handshake() {
        let (folder, ours) = (tempfile::tempdir().unwrap(), certificate());
        write(&folder, &ours.certificate, &ours.key);
        let (tls, begun) = (read(&folder).unwrap(), Instant::now());
        let (_client, server) = tokio::io::duplex(64);
        assert!(tls.accept(server).await.is_none());
        assert!(begun.elapsed() >= limits::SERVE_HANDSHAKE_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_read_again() {
        let (folder, first, second) = (tempfile::tempdir().unwrap(), certificate(), certificate());
        write(&folder, &first.certificate, &first.key);
        let tls = read(&folder).unwrap();
        let (warned, said) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
        let keeping = tokio::spawn({
            let (tls, warned, said) = (tls.clone(), Arc::clone(&warned), Arc::clone(&said));
            async move {
                let warn = |error: &ServerTlsError| {
                    warned.fetch_add(1, Ordering::SeqCst);
                    *said.lock().unwrap() = error.to_string();
                };
                tls.reload_changed(warn).await;
            }
        });
        // The certificate is there before its key.
        write(&folder, &second.certificate, &first.key);
        // Between two looks, so that none sees a half of what is written next.
        sleep(limits::SERVE_TLS_LOOK * 5 / 2).await;
        assert_eq!(warned.load(Ordering::SeqCst), 1, "once for one reason");
        assert!(said.lock().unwrap().contains("is not that of the certificate"), "{said:?}");
        assert!(serves(&tls, &first).await);
        write(&folder, &second.certificate, &second.key);
        sleep(limits::SERVE_TLS_LOOK * 2).await;
        assert!(serves(&tls, &second).await && !serves(&tls, &first).await);
        assert_eq!(warned.load(Ordering::SeqCst), 1);
        keeping.abort();
    }
}
