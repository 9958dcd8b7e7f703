//! A session on a server that is open for writing.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use shelly_core::limits;
use shelly_session::{EventLogEnd, JournalAttachment, JournalBatch, JournalLease, SessionError, SessionStatus};
use tokio::time::sleep;

use super::{
    connection::{ClusterCallError, ClusterConnection, ClusterHandles, is_answer, key_of, location, random_token},
    message_log::MessageLog,
    session_entry::SessionEntry,
};

/// The right to write to a session: an entry in the bucket of leases, which ends unless it is refreshed.
pub(crate) struct ClusterLease {
    connection: Arc<ClusterConnection>,
    state: LeaseState,
    /// The recorded events.
    events: MessageLog,
}

/// The state that the tasks of a lease share.
#[derive(Debug, Clone)]
struct LeaseState {
    id: String,
    /// The value of the lease, which no other holder has.
    holder: Bytes,
    lease_revision: u64,
    entry: SessionEntry,
    entry_revision: u64,
    log: MessageLog,
    /// The number of the last line.
    last: u64,
    /// `true` if the entry has changed since it was stored.
    is_changed: bool,
    /// `true` if a copy of the journal was made, so that lines may be discarded.
    is_set_aside: bool,
    /// `true` if another process has the session.
    is_lost: bool,
    /// `true` if the server did not do what it was asked to.
    has_failed: bool,
}

/// A lease that was taken, and its value.
pub(crate) struct TakenLease {
    pub holder: Bytes,
    pub revision: u64,
}

/// The holder of a lease, as this host sees it.
struct SeenHolder {
    /// The revision of the lease.
    revision: u64,
    /// `true` if it was not renewed for its time.
    is_overdue: bool,
}

impl TakenLease {
    /// Takes the lease on a name; returns `None` if another process has it.
    pub async fn take(handles: &ClusterHandles, id: &str) -> Result<Option<Self>, ClusterCallError> {
        let holder = Bytes::from(random_token()?);
        let revision = handles.create_lease(&key_of(id), &holder).await?;
        Ok(revision.map(|revision| Self { holder, revision }))
    }

    /// Gives the lease back, as far as the server allows it: otherwise it ends by itself.
    pub async fn release(&self, handles: &ClusterHandles, id: &str) {
        let _ = handles.leases.delete_expect_revision(key_of(id), Some(self.revision)).await;
    }
}

impl ClusterLease {
    /// Creates the lease of a session whose entry was read under it. It continues after the line `last`, if it is known.
    pub fn new(
        connection: Arc<ClusterConnection>,
        id: &str,
        taken: TakenLease,
        (entry, entry_revision): (SessionEntry, u64),
        log: Option<(MessageLog, u64)>,
    ) -> Self {
        let subject = connection.handles().journal_subject(id, &entry.token);
        let events = MessageLog::new(connection.handles().events_subject(id, &entry.token));
        let (log, last) = log.unwrap_or_else(|| (MessageLog::new(subject), 0));
        let state = LeaseState {
            id: id.to_owned(),
            holder: taken.holder,
            lease_revision: taken.revision,
            entry,
            entry_revision,
            log,
            last,
            is_changed: false,
            is_set_aside: false,
            is_lost: false,
            has_failed: false,
        };
        Self { connection, state, events }
    }

    /// Changes the recorded events by a task on the server, which returns `false` if another writer has changed them. A
    /// failure says nothing about the session.
    fn change_events<F>(
        &mut self,
        task: impl FnOnce(ClusterHandles, MessageLog, String) -> F,
    ) -> Result<(), SessionError>
    where
        F: Future<Output = Result<(MessageLog, bool), ClusterCallError>> + Send + 'static,
    {
        let (log, writer, id) = (self.events.clone(), self.state.writer(), self.state.id.clone());
        let place = || location(&self.connection.handles().options.namespace, &id).with_file_name("events");
        let (log, is_done) = self.connection.wait("write", place, |handles| task(handles, log, writer))?;
        if !is_done {
            return Err(SessionError::LeaseLost { id });
        }
        (self.state.entry.events_bytes, self.state.is_changed) = (log.end, true);
        self.events = log;
        Ok(())
    }

    /// Changes the state by a task on the server, whose error leaves it as the task left it.
    fn change<F>(
        &mut self,
        doing: &'static str,
        task: impl FnOnce(ClusterHandles, LeaseState) -> F,
    ) -> Result<(), SessionError>
    where
        F: Future<Output = (LeaseState, Result<(), ClusterCallError>)> + Send + 'static,
    {
        let (state, id) = (self.state.clone(), self.state.id.clone());
        let namespace = self.connection.handles().options.namespace.clone();
        let place = || location(&namespace, &id);
        let (state, result) = self.connection.wait(doing, place, |handles| {
            let changed = task(handles, state);
            async move { Ok(changed.await) }
        })?;
        self.state = state;
        self.state.is_lost |= matches!(result, Err(ClusterCallError::Session(SessionError::LeaseLost { .. })));
        self.state.has_failed |= matches!(result, Err(ClusterCallError::Failed(_)));
        result.map_err(|error| error.report_on(doing, &place()))
    }
}

impl JournalLease for ClusterLease {
    fn continue_after(&mut self, last: u64, end: u64) -> Result<(), SessionError> {
        self.change("write", move |handles, mut state| async move {
            let result = state.continue_after(&handles, last, end).await;
            (state, result)
        })
    }

    fn set_aside(&mut self) -> Result<PathBuf, SessionError> {
        let token = self.state.entry.token.clone();
        let name = format!("damaged-{}", self.state.log.sequence.max(self.state.entry_revision));
        let kept = location(&self.connection.handles().options.namespace, &self.state.id).with_file_name(&name);
        self.change("copy", move |handles, mut state| async move {
            let to = format!("{}.{name}", handles.part_subject("copy", &state.id, &token));
            let result = state.copy_to(&handles, to).await;
            state.is_set_aside = result.is_ok();
            (state, result)
        })?;
        Ok(kept)
    }

    fn set_mark(&mut self, mark: &str) -> Result<(), SessionError> {
        let mark = mark.to_owned();
        self.change("mark", move |handles, mut state| async move {
            let result = match state.refresh(&handles).await {
                Ok(()) => {
                    state.entry.mark = Some(mark);
                    state.store_entry(&handles).await
                }
                lost => lost,
            };
            (state, result)
        })
    }

    fn append(&mut self, batch: &JournalBatch<'_>) -> Result<(), SessionError> {
        if batch.after != self.state.last {
            return Err(SessionError::LeaseLost { id: self.state.id.clone() });
        }
        let (lines, attachments) = (Bytes::copy_from_slice(batch.lines), batch.attachments.to_vec());
        let last = batch.last;
        self.change("write", move |handles, mut state| async move {
            let result = state.append(&handles, lines, attachments, last).await;
            (state, result)
        })
    }

    /// The server has everything that it acknowledged. Whether that survives a power loss is its setting `sync_interval`.
    fn sync(&mut self) -> Result<(), SessionError> {
        Ok(())
    }

    fn open_events(&mut self) -> Result<EventLogEnd, SessionError> {
        let (subject, id) = (self.events.subject.clone(), self.state.id.clone());
        let place = || location(&self.connection.handles().options.namespace, &id).with_file_name("events");
        let read = |handles: ClusterHandles| async move { handles.last_message(&subject).await };
        let Some(last) = self.connection.wait("read", place, read)? else { return Ok(EventLogEnd::default()) };
        // A message of somebody else may say that it ends anywhere: then all lines tell what is intact.
        let tail = if last.end <= limits::SESSION_EVENTS_BYTES { last.payload.to_vec() } else { Vec::new() };
        Ok(EventLogEnd { bytes: last.end, tail })
    }

    fn continue_events(&mut self, end: u64) -> Result<(), SessionError> {
        self.change_events(|handles, mut log, writer| async move {
            let is_done = handles.cut(&mut log, &writer, end, |_| true).await?;
            Ok((log, is_done))
        })
    }

    fn append_events(&mut self, lines: &[u8]) -> Result<(), SessionError> {
        let lines = Bytes::copy_from_slice(lines);
        self.change_events(|handles, mut log, writer| async move {
            let is_done = handles.append_lines(&mut log, &writer, lines).await?;
            Ok((log, is_done))
        })
    }

    /// Each call waits for the server.
    fn gathers_events(&self) -> bool {
        true
    }

    fn refresh(&mut self) -> Result<(), SessionError> {
        self.change("refresh the lease on", |handles, mut state| async move {
            let mut result = state.refresh(&handles).await;
            if result.is_ok() && state.is_changed {
                result = state.store_entry(&handles).await;
            }
            (state, result)
        })
    }

    fn refresh_interval(&self) -> Option<Duration> {
        Some(self.connection.handles().options.lease / limits::CLUSTER_LEASE_REFRESHES)
    }
}

impl Drop for ClusterLease {
    fn drop(&mut self) {
        if self.state.is_lost {
            return;
        }
        let _ = self.change("release", |handles, mut state| async move {
            // After a failure nobody waits for the server again: the lease ends by itself.
            if !state.has_failed && state.is_changed && state.refresh(&handles).await.is_ok() {
                let _ = state.store_entry(&handles).await;
            }
            let (holder, revision) = (state.holder.clone(), state.lease_revision);
            TakenLease { holder, revision }.release(&handles, &state.id).await;
            (state, Ok(()))
        });
    }
}

impl LeaseState {
    async fn continue_after(&mut self, handles: &ClusterHandles, last: u64, end: u64) -> Result<(), ClusterCallError> {
        // A complete line that was not read is one that another writer has appended since.
        let is_set_aside = self.is_set_aside;
        let may_remove = move |part: &[u8]| is_set_aside || memchr::memchr(b'\n', part).is_none();
        let writer = self.writer();
        if !handles.cut(&mut self.log, &writer, end, may_remove).await? {
            return Err(ClusterCallError::lease_lost(&self.id));
        }
        self.last = last;
        Ok(())
    }

    /// Copies all messages to another subject.
    async fn copy_to(&mut self, handles: &ClusterHandles, subject: String) -> Result<(), ClusterCallError> {
        let (mut copy, mut from) = (MessageLog::new(subject), 1);
        let writer = self.writer();
        while let Some(message) = handles.next_message(&self.log.subject, from).await? {
            from = message.sequence + 1;
            if !handles.append(&mut copy, &writer, message.payload, false).await? {
                return Err(ClusterCallError::lease_lost(&self.id));
            }
        }
        Ok(())
    }

    async fn append(
        &mut self,
        handles: &ClusterHandles,
        lines: Bytes,
        attachments: Vec<JournalAttachment>,
        last: u64,
    ) -> Result<(), ClusterCallError> {
        for attachment in attachments {
            let of = (&*self.id, &*self.entry.token);
            let stored = handles.store_attachment(of, &self.writer(), attachment).await?;
            self.entry.attachment_bytes = self.entry.attachment_bytes.saturating_add(stored);
        }
        let status = SessionStatus::from_lines(&lines);
        self.append_lines(handles, lines).await?;
        self.last = last;
        (self.entry.journal_bytes, self.is_changed) = (self.log.end, true);
        self.entry.touch();
        match status.is_some_and(|status| self.entry.set_status(status)) {
            true => self.store_entry(handles).await,
            false => Ok(()),
        }
    }

    async fn append_lines(&mut self, handles: &ClusterHandles, lines: Bytes) -> Result<(), ClusterCallError> {
        let writer = self.writer();
        match handles.append(&mut self.log, &writer, lines, false).await? {
            true => Ok(()),
            false => Err(ClusterCallError::lease_lost(&self.id)),
        }
    }

    /// Returns the text by which this holder recognizes its messages.
    fn writer(&self) -> String {
        String::from_utf8_lossy(&self.holder).into_owned()
    }

    async fn refresh(&mut self, handles: &ClusterHandles) -> Result<(), ClusterCallError> {
        let key = key_of(&self.id);
        let refreshed = match handles.update(&handles.leases, &key, &self.holder, self.lease_revision).await? {
            // It may have run out without anybody else taking it.
            None => handles.create(&handles.leases, &key, &self.holder).await?,
            refreshed => refreshed,
        };
        self.lease_revision = refreshed.ok_or_else(|| ClusterCallError::lease_lost(&self.id))?;
        Ok(())
    }

    async fn store_entry(&mut self, handles: &ClusterHandles) -> Result<(), ClusterCallError> {
        let key = key_of(&self.id);
        let value = handles.seal_entry(&key, &self.entry)?;
        let mut stored = handles.update(&handles.entries, &key, &value, self.entry_revision).await?;
        if stored.is_none() {
            // An earlier holder may have stored it after its lease had run out.
            self.refresh(handles).await?;
            let there = handles.value(&handles.entries, &key).await?;
            let is_same =
                |there: &Bytes| handles.open_entry(&key, there).is_ok_and(|there| there.token == self.entry.token);
            if let Some((_, revision)) = there.filter(|(there, _)| is_same(there)) {
                stored = handles.update(&handles.entries, &key, &value, revision).await?;
            }
        }
        self.entry_revision = stored.ok_or_else(|| ClusterCallError::lease_lost(&self.id))?;
        self.is_changed = false;
        Ok(())
    }
}

impl ClusterHandles {
    /// Takes a lease, and returns its revision; `None` if somebody else has it.
    pub async fn create_lease(&self, key: &str, holder: &Bytes) -> Result<Option<u64>, ClusterCallError> {
        let created = self.create(&self.leases, key, holder).await?;
        match created.is_none() && self.is_lease_free(key).await? {
            true => self.create(&self.leases, key, holder).await,
            false => Ok(created),
        }
    }

    /// Returns `true` if nobody has a lease. One that was not renewed for its time, as far as this host has seen, is ended.
    pub async fn is_lease_free(&self, key: &str) -> Result<bool, ClusterCallError> {
        let revision = match self.seen_lease(key).await? {
            None => return Ok(true),
            Some(SeenHolder { is_overdue: false, .. }) => return Ok(false),
            Some(SeenHolder { revision, .. }) => revision,
        };
        // The server may have been away, and a holder that lives renews it within this time.
        sleep(self.options.lease / limits::CLUSTER_LEASE_REFRESHES).await;
        // Only this revision: one that was renewed stays.
        Ok(self.leases.delete_expect_revision(key, Some(revision)).await.is_ok())
    }

    /// Returns `true` if somebody has a lease, and has renewed it within its time, as far as this host has seen. Ends none.
    pub async fn is_lease_held(&self, key: &str) -> Result<bool, ClusterCallError> {
        Ok(self.seen_lease(key).await?.is_some_and(|holder| !holder.is_overdue))
    }

    /// Returns the revision of the last change of a lease, such as its end; 0 if the server no longer knows one.
    pub async fn lease_revision(&self, key: &str) -> Result<u64, ClusterCallError> {
        let subject = format!("{}{key}", self.leases.prefix);
        match self.retry(|| self.leases.stream.get_last_raw_message_by_subject(&subject), is_answer).await {
            Ok(message) => Ok(message.sequence),
            Err(error) if is_answer(&error) => Ok(0),
            Err(error) => Err(ClusterCallError::failed(error)),
        }
    }

    /// Looks at a lease; returns `None` if nobody has it.
    async fn seen_lease(&self, key: &str) -> Result<Option<SeenHolder>, ClusterCallError> {
        let watch = &self.parts.lease_watch;
        let Some((_, revision)) = self.leader_value(&self.leases, key).await? else {
            watch.forget(key);
            return Ok(None);
        };
        Ok(Some(SeenHolder { revision, is_overdue: watch.is_overdue(key, revision, self.options.lease) }))
    }
}
