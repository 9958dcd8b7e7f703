//! Serves attachments of sessions as resources to MCP clients.

use async_trait::async_trait;

use crate::{
    digest::Sha256Digest,
    error::Fault,
    limits,
    mcp::serve::{McpResource, McpResourceContent, McpResourceProvider},
    session::{SessionError, SessionStore},
};

/// The attachments of a project's newest sessions that were made by this person.
pub(super) struct AttachmentArchive {
    pub store: SessionStore,
}

const TEMPLATE: &str = "shelly://session/{session}/attachment/{digest}";

/// The address of an attachment: its session and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AttachmentUri {
    session: String,
    digest: Sha256Digest,
}

impl AttachmentUri {
    fn of(uri: &str) -> Option<Self> {
        let (session, digest) = uri.strip_prefix("shelly://session/")?.split_once("/attachment/")?;
        Some(Self { session: session.to_owned(), digest: Sha256Digest::of_hex(digest)? })
    }

    fn uri(&self) -> String {
        TEMPLATE.replace("{session}", &self.session).replace("{digest}", &self.digest.hex())
    }
}

#[async_trait]
impl McpResourceProvider for AttachmentArchive {
    async fn list(&self, after: Option<String>) -> Result<(Vec<McpResource>, bool), Fault> {
        let after = match after {
            None => None,
            Some(after) => Some(
                AttachmentUri::of(&after)
                    .ok_or_else(|| Fault::invalid("the cursor is invalid; list from the beginning"))?,
            ),
        };
        let store = self.store.clone();
        blocking(move || list(&store, after.as_ref())).await
    }

    async fn read(&self, uri: String) -> Result<Option<McpResourceContent>, Fault> {
        let Some(place) = AttachmentUri::of(&uri) else { return Ok(None) };
        let store = self.store.clone();
        blocking(move || read(&store, &place)).await
    }

    fn template(&self) -> (&'static str, &'static str) {
        (TEMPLATE, "attachment of a session")
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SessionError> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|_| Fault::other("the sessions cannot be read"))?;
    done.map_err(|error| Fault::other(error.report().to_string()))
}

fn list(store: &SessionStore, after: Option<&AttachmentUri>) -> Result<(Vec<McpResource>, bool), SessionError> {
    let mut page = Vec::new();
    let mut is_before = after.is_some();
    for session in store.list(limits::MCP_SERVE_SESSIONS)? {
        let id = session.id;
        let is_last = after.is_some_and(|after| after.session == id);
        if is_before && !is_last {
            continue;
        }
        is_before = false;
        // A session that cannot be read, or is another person's, is skipped.
        let (Ok((header, _)), Ok(true)) = (session.content, store.is_marked(&id)) else { continue };
        let all = store.attachments(&id, limits::SESSION_FILES).unwrap_or_default();
        for (digest, size) in all {
            let is_listed = after.filter(|_| is_last).is_some_and(|after| digest <= after.digest);
            if is_listed || size > limits::MCP_SERVE_RESOURCE_BYTES as u64 {
                continue;
            }
            if page.len() == limits::MCP_SERVE_PAGE {
                return Ok((page, true));
            }
            let uri = AttachmentUri { session: id.clone(), digest }.uri();
            let name = format!("{id}/{}", &digest.hex()[..12]);
            page.push(McpResource { uri, name, description: header.title.clone(), size });
        }
    }
    Ok((page, false))
}

fn read(store: &SessionStore, place: &AttachmentUri) -> Result<Option<McpResourceContent>, SessionError> {
    let is_own = match store.is_own(&place.session) {
        // Only the full name of a session is accepted, not a prefix.
        Ok(is_own) => is_own && store.resolve(&place.session)? == place.session,
        Err(SessionError::NotFound { .. } | SessionError::BadName { .. } | SessionError::Ambiguous { .. }) => false,
        Err(error) => return Err(error),
    };
    if !is_own {
        return Ok(None);
    }
    let bytes = store.attachment(&place.session, &place.digest)?;
    let bytes = bytes.filter(|bytes| bytes.len() <= limits::MCP_SERVE_RESOURCE_BYTES);
    Ok(bytes.map(|bytes| McpResourceContent { media_type: media_type(&bytes).into(), bytes: bytes.into() }))
}

/// Returns the media type of bytes by their beginning; it is not stored with them.
fn media_type(bytes: &[u8]) -> &'static str {
    const KNOWN: [(&[u8], &str); 7] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"ID3", "audio/mpeg"),
        (b"OggS", "audio/ogg"),
        (b"fLaC", "audio/flac"),
    ];
    let known = KNOWN.iter().find(|(begins, _)| bytes.starts_with(begins)).map(|(_, kind)| *kind);
    let riff = match (bytes.get(..4), bytes.get(8..12)) {
        (Some(b"RIFF"), Some(b"WEBP")) => Some("image/webp"),
        (Some(b"RIFF"), Some(b"WAVE")) => Some("audio/wav"),
        _ => None,
    };
    known.or(riff).unwrap_or(if str::from_utf8(bytes).is_ok() { "text/plain" } else { "application/octet-stream" })
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use super::*;
    use crate::{
        session::{DiskStorage, NewSession, SessionStoreOptions},
        trust::UserKey,
    };

    fn store(root: &Path, key: &str) -> SessionStore {
        let own = UserKey::new(Some(root.join(key)));
        let options = SessionStoreOptions { root: Some(root.into()), own, ..SessionStoreOptions::default() };
        SessionStore::new(Arc::new(DiskStorage), root.join("sessions"), options)
    }

    /// Creates a session with these attachments.
    fn session(store: &SessionStore, id: &str, all: &[Vec<u8>]) {
        let made = store
            .create(NewSession { id: Some(id.into()), title: format!("about {id}"), ..NewSession::default() })
            .unwrap();
        for bytes in all {
            std::fs::write(made.folder().join("attachments").join(Sha256Digest::of(bytes).hex()), bytes).unwrap();
        }
    }

    #[tokio::test]
    async fn attachment_pages_list_only_own_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, other) = (store(folder.path(), "mine"), store(folder.path(), "other"));
        let many: Vec<_> = (0..limits::MCP_SERVE_PAGE + 3).map(|n| n.to_string().into_bytes()).collect();
        session(&mine, "one", &many);
        session(&mine, "two", &[b"\x89PNG\r\n\x1a\n".to_vec(), vec![0; limits::MCP_SERVE_RESOURCE_BYTES + 1]]);
        session(&other, "theirs", &[b"secret".to_vec()]);
        let archive = AttachmentArchive { store: mine };
        let (first, has_more) = archive.list(None).await.unwrap();
        assert_eq!((first.len(), has_more), (limits::MCP_SERVE_PAGE, true));
        let (second, has_more) = archive.list(Some(first[99].uri.clone())).await.unwrap();
        assert_eq!((first.len() + second.len(), has_more), (many.len() + 1, false), "one is too large");
        let mut all: Vec<_> = first.into_iter().chain(second).collect();
        assert!(all.iter().all(|there| !there.uri.contains("theirs")));
        assert!(all.iter().any(|there| there.description == "about one"));
        for there in &all {
            let read = archive.read(there.uri.clone()).await.unwrap().unwrap();
            assert_eq!(read.bytes.len() as u64, there.size);
            let kind = if there.uri.contains("/two/") { "image/png" } else { "text/plain" };
            assert_eq!(read.media_type, kind);
        }
        all.sort_by(|a, b| a.uri.cmp(&b.uri));
        all.dedup_by(|a, b| a.uri == b.uri);
        assert_eq!(all.len(), many.len() + 1);
        let secret = AttachmentUri { session: "theirs".into(), digest: Sha256Digest::of(b"secret") }.uri();
        let part = AttachmentUri { session: "on".into(), digest: Sha256Digest::of(b"7") }.uri();
        let up = AttachmentUri { session: "../sessions/one".into(), digest: Sha256Digest::of(b"7") }.uri();
        for uri in [&secret, &part, &up, "file:///etc/passwd", "shelly://session/one/attachment/7", ""] {
            assert_eq!(archive.read(uri.into()).await, Ok(None), "{uri}");
        }
        assert!(archive.list(Some("nonsense".into())).await.is_err());
        assert_eq!(archive.list(Some(part)).await, Ok((vec![], false)), "it has gone");
    }

    #[test]
    fn media_type_is_detected_from_first_bytes() {
        for (bytes, kind) in [
            (&b""[..], "text/plain"),
            ("grüße".as_bytes(), "text/plain"),
            (b"\xff\xfe", "application/octet-stream"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
            (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
            (b"RIFF", "text/plain"),
            (b"%PDF-1.7", "application/pdf"),
        ] {
            assert_eq!(media_type(bytes), kind, "{bytes:?}");
        }
    }
}
