//! All sessions of a namespace.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::TryStreamExt;
use shelly_core::{digest::Sha256Digest, error::Report, limits};
use shelly_session::{
    AttachmentError, JournalDraft, JournalLease, JournalRemoval, JournalSource, JournalStat, JournalStorage,
    SessionDiskUsage, SessionError, SessionHeader, SessionStatus,
};

use super::{
    ClusterOptions,
    cluster_draft::{ClusterDraft, purge_session},
    cluster_error::{ClusterError, connection_mend},
    cluster_lease::{ClusterLease, TakenLease},
    connection::{
        ClusterCallError, ClusterConnection, ClusterHandles, is_session_key, key_of, location, name_of, random_token,
    },
    message_source::MessageSource,
    run_streams::ScannedValue,
    session_entry::{SessionEntry, is_token},
    shared_connection::SharedConnection,
    state::purge_session_state,
};

/// Sessions on a NATS server with JetStream. Clones share one connection.
#[derive(Clone)]
pub struct ClusterJournals {
    shared: SharedConnection,
}

impl ClusterJournals {
    /// Creates a storage that connects when it is used for the first time. A failed attempt is repeated at the next use.
    pub fn new(options: ClusterOptions) -> Self {
        Self::shared(SharedConnection::new(options))
    }

    /// Creates a storage on a connection that others share.
    pub(crate) fn shared(shared: SharedConnection) -> Self {
        Self { shared }
    }

    /// Connects to a server, and creates what is missing there. Blocks.
    ///
    /// # Errors
    ///
    /// [`SessionError::Storage`] if the namespace is invalid, no server can be reached, or one refuses the credentials or
    /// has no JetStream.
    pub fn connect(options: ClusterOptions) -> Result<Self, SessionError> {
        let journals = Self::new(options);
        journals.connection()?;
        Ok(journals)
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &str {
        &self.shared.options().namespace
    }

    pub(crate) fn connection(&self) -> Result<Arc<ClusterConnection>, SessionError> {
        self.shared.blocking().map_err(|error| {
            let (place, reason, mend) = match error {
                ClusterError::Unreachable { servers, reason } => {
                    let mend = connection_mend(&reason);
                    (servers, reason, mend)
                }
                other => (self.shared.options().servers.join(", "), other.to_string(), "see the reason"),
            };
            SessionError::Storage { doing: "connect to", place, reason, mend: mend.into(), is_unusable: false }
        })
    }

    /// Ends the lease on a session, as if its holder had been unable to refresh it. Returns `true` if there was one. The
    /// holder ends its run before its next call.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the server fails.
    pub fn revoke_lease(&self, id: &str) -> Result<bool, SessionError> {
        let key = key_of(id);
        self.wait("revoke the lease on", id, |handles| async move {
            let held = handles.value(&handles.leases, &key).await?.is_some();
            if held {
                handles.retry(|| handles.leases.delete(&key), |_| false).await.map_err(ClusterCallError::failed)?;
            }
            Ok(held)
        })
    }

    fn wait<T, F>(
        &self,
        doing: &'static str,
        id: &str,
        task: impl FnOnce(ClusterHandles) -> F,
    ) -> Result<T, SessionError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ClusterCallError>> + Send + 'static,
    {
        self.connection()?.wait(doing, || self.location(id), task)
    }

    /// Returns the entry of a session; `None` if there is no such session.
    fn entry(&self, id: &str) -> Result<Option<SessionEntry>, SessionError> {
        let name = id.to_owned();
        let entry = self.wait("read", id, |handles| async move { handles.session_entry(&name).await })?;
        Ok(entry.map(|(entry, _)| entry))
    }

    fn existing(&self, id: &str) -> Result<SessionEntry, SessionError> {
        self.entry(id)?.ok_or_else(|| SessionError::NotFound { given: id.to_owned() })
    }

    /// Returns the entries of all sessions, at most [`limits::SESSIONS`], without their texts. One that cannot be read is
    /// `None`.
    fn entries(&self) -> Result<BTreeMap<String, Option<SessionEntry>>, SessionError> {
        self.wait("list", "", |handles| async move {
            let read = || async {
                // One that changes meanwhile is read twice, and the later one counts.
                let mut all = BTreeMap::new();
                let mut each = |found: ScannedValue| {
                    if is_session_key(&found.key) {
                        let entry = handles.open_entry(&found.key, &found.value).ok();
                        all.insert(name_of(&found.key), entry.map(SessionEntry::without_texts));
                    }
                    all.len() < limits::SESSIONS
                };
                handles.scan(&handles.entries, 0, &mut each).await?;
                Ok::<_, ClusterCallError>(all)
            };
            handles.retry(read, |_| false).await
        })
    }
}

impl JournalStorage for ClusterJournals {
    fn location(&self, id: &str) -> PathBuf {
        location(self.namespace(), id)
    }

    fn names(&self) -> Result<Vec<String>, SessionError> {
        self.wait(
            "list",
            "",
            |handles| async move { Ok(handles.keys().await?.iter().map(|key| name_of(key)).collect()) },
        )
    }

    fn contains(&self, id: &str) -> Result<bool, SessionError> {
        let key = key_of(id);
        self.wait("read", id, |handles| async move { Ok(handles.value(&handles.entries, &key).await?.is_some()) })
    }

    fn stats(&self) -> Result<Vec<JournalStat>, SessionError> {
        let stat = |(id, entry): (String, Option<SessionEntry>)| JournalStat {
            id,
            modified: entry.as_ref().map_or(UNIX_EPOCH, SessionEntry::modified),
            journal_bytes: entry.map_or(0, |entry| entry.journal_bytes),
        };
        Ok(self.entries()?.into_iter().map(stat).collect())
    }

    fn journal_bytes(&self, id: &str) -> Option<u64> {
        Some(self.entry(id).ok()??.journal_bytes)
    }

    fn bytes_of(&self, id: &str) -> u64 {
        self.entry(id).ok().flatten().map_or(0, |entry| entry.bytes())
    }

    fn events_bytes(&self, id: &str) -> u64 {
        self.entry(id).ok().flatten().map_or(0, |entry| entry.events_bytes)
    }

    fn usage(&self) -> Result<SessionDiskUsage, SessionError> {
        let entries = self.entries()?;
        let known = entries.values().flatten();
        let bytes = known.fold(0_u64, |sum, entry| sum.saturating_add(entry.bytes()));
        Ok(SessionDiskUsage { sessions: entries.len(), bytes })
    }

    /// Reads the entry alone, whose header is not verified.
    fn describe(&self, id: &str) -> Result<(SessionHeader, SessionStatus), SessionError> {
        let entry = self.existing(id)?;
        let header = entry.header().map_err(|reason| SessionError::Damaged {
            path: self.location(id),
            line: 1,
            byte: 0,
            reason,
        })?;
        Ok((header, entry.status()))
    }

    fn read(&self, id: &str, from: u64) -> Result<Box<dyn JournalSource>, SessionError> {
        let token = self.existing(id)?.token;
        let connection = self.connection()?;
        let subject = connection.handles().journal_subject(id, &token);
        let mut source = MessageSource::new(connection, self.location(id), subject, (u64::MAX, limits::SESSION_BYTES));
        source.skip_lines(from.saturating_sub(1))?;
        Ok(Box::new(source))
    }

    fn events(&self, id: &str) -> Result<Option<Box<dyn JournalSource>>, SessionError> {
        let token = self.existing(id)?.token;
        let connection = self.connection()?;
        let (subject, location) = (connection.handles().events_subject(id, &token), self.location(id));
        let of_events = subject.clone();
        let last = self.wait("read", id, |handles| async move { handles.last_message(&of_events).await })?;
        let Some(last) = last else { return Ok(None) };
        let bounds = (last.sequence, limits::SESSION_EVENTS_BYTES);
        let source = MessageSource::new(connection, location.with_file_name("events"), subject, bounds);
        Ok(Some(Box::new(source)))
    }

    fn mark(&self, id: &str) -> Result<Option<String>, SessionError> {
        Ok(self.existing(id)?.mark())
    }

    fn attachments(&self, id: &str, most: usize) -> Result<Vec<(Sha256Digest, u64)>, SessionError> {
        let (token, name) = (self.existing(id)?.token, id.to_owned());
        self.wait("read", id, |handles| async move { handles.list_attachments((&name, &token), most).await })
    }

    fn attachment(&self, id: &str, digest: &Sha256Digest) -> Result<Vec<u8>, AttachmentError> {
        let token = self.entry(id)?.ok_or(AttachmentError::Missing)?.token;
        let (name, wanted) = (id.to_owned(), *digest);
        self.wait("read", id, |handles| async move { handles.read_attachment((&name, &token), &wanted).await })?
    }

    fn draft(&self, id: &str, _is_first: bool) -> Result<Box<dyn JournalDraft>, SessionError> {
        let key = key_of(id);
        let token = self.wait("create", id, |handles| async move {
            match handles.value(&handles.entries, &key).await? {
                Some(_) => Ok(None),
                None => Ok(Some(random_token()?)),
            }
        })?;
        let exists = || SessionError::Exists { id: id.to_owned(), in_use: self.is_taken(id) };
        Ok(Box::new(ClusterDraft::new(self.connection()?, id, token.ok_or_else(exists)?)))
    }

    fn take(&self, id: &str) -> Result<Option<Box<dyn JournalLease>>, SessionError> {
        self.existing(id)?;
        let name = id.to_owned();
        let taken = self.wait("take the lease on", id, |handles| async move {
            let Some(taken) = TakenLease::take(&handles, &name).await? else { return Ok(None) };
            // The session may have been removed before the lease was taken.
            match handles.session_entry(&name).await {
                Ok(Some(entry)) => Ok(Some((taken, entry))),
                gone => {
                    taken.release(&handles, &name).await;
                    gone?;
                    Err(ClusterCallError::Session(SessionError::NotFound { given: name }))
                }
            }
        })?;
        let connection = self.connection()?;
        let lease = |(taken, entry)| ClusterLease::new(connection, id, taken, entry, None);
        Ok(taken.map(|taken| Box::new(lease(taken)) as Box<dyn JournalLease>))
    }

    fn is_taken(&self, id: &str) -> bool {
        let key = key_of(id);
        // One that stays although nobody renews it keeps nobody from the session: whoever takes it ends it.
        let held = self.wait("read", id, |handles| async move { handles.is_lease_held(&key).await });
        held.unwrap_or(false)
    }

    fn remove(&self, id: &str) -> Result<JournalRemoval, SessionError> {
        let name = id.to_owned();
        self.wait("remove", id, |handles| async move {
            if handles.value(&handles.entries, &key_of(&name)).await?.is_none() {
                return Ok(JournalRemoval::Missing);
            }
            let Some(taken) = TakenLease::take(&handles, &name).await? else { return Ok(JournalRemoval::InUse) };
            let removed = remove_session(&handles, &name).await;
            taken.release(&handles, &name).await;
            removed
        })
    }

    /// Removes messages that no entry names, once they are [old](limits::SESSION_LEFTOVER_AGE): they may belong to a
    /// session that another host creates at this moment.
    fn remove_leftovers(&self) -> Result<Vec<(String, Report)>, SessionError> {
        self.wait("list", "", |handles| async move {
            // The messages of a session whose entry cannot be read, such as one of a later release, are not touched.
            let (mut known, mut unreadable) = (HashSet::new(), HashSet::new());
            for key in handles.keys().await? {
                match handles.session_token(&name_of(&key)).await? {
                    Some(token) => drop(known.insert(token)),
                    None => drop(unreadable.insert(key)),
                }
            }
            let prefix = format!("shelly.{}.session.", handles.options.namespace);
            for subject in handles.subjects(&format!("{prefix}*.*")).await? {
                let Some((key, token)) = subject.strip_prefix(&prefix).and_then(|rest| rest.split_once('.')) else {
                    continue;
                };
                // Both become parts of the patterns of what is removed.
                if !is_session_key(key) || !is_token(token) {
                    continue;
                }
                let written = handles.last_written(&subject).await?;
                let since = written.and_then(|written| UNIX_EPOCH.checked_add(Duration::from_millis(written)));
                let age = since.and_then(|since| SystemTime::now().duration_since(since).ok()).unwrap_or_default();
                let is_known = known.contains(token) || unreadable.contains(key);
                if !is_known && age >= limits::SESSION_LEFTOVER_AGE {
                    purge_session(&handles, &name_of(key), token).await?;
                }
            }
            Ok(Vec::new())
        })
    }
}

impl ClusterHandles {
    /// Returns the keys of all sessions, at most [`limits::SESSIONS`]. What has another key is no session.
    pub async fn keys(&self) -> Result<Vec<String>, ClusterCallError> {
        let keys = self.retry(|| self.entries.keys(), |_| false).await.map_err(ClusterCallError::failed)?;
        let mut keys = pin!(keys);
        let mut all = Vec::new();
        while let Some(key) = keys.try_next().await.map_err(ClusterCallError::failed)? {
            if all.len() >= limits::SESSIONS {
                break;
            }
            if is_session_key(&key) {
                all.push(key);
            }
        }
        Ok(all)
    }
}

/// Removes a session whose lease is held. Its name is free before its messages are removed.
async fn remove_session(handles: &ClusterHandles, id: &str) -> Result<JournalRemoval, ClusterCallError> {
    let key = key_of(id);
    if handles.value(&handles.entries, &key).await?.is_none() {
        return Ok(JournalRemoval::Missing);
    }
    let token = handles.session_token(id).await?;
    handles.retry(|| handles.entries.delete(&key), |_| false).await.map_err(ClusterCallError::failed)?;
    if let Some(token) = token {
        purge_session(handles, id, &token).await?;
    }
    purge_session_state(handles, id).await?;
    Ok(JournalRemoval::Removed)
}

impl fmt::Debug for ClusterJournals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterJournals").field("namespace", &self.shared.options().namespace).finish_non_exhaustive()
    }
}
