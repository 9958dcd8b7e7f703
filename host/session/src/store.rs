use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use super::{
    JournalLineContent, JournalReader, LaunchOptions, MeasuredUsage, Secrets, Session, SessionDiskUsage, SessionError,
    SessionHeader, SessionPart, SessionStorage,
    error::disk,
    event_log::EventLogWriter,
    file_journals::FileJournals,
    file_names::is_name,
    journal_lease::{JournalBatch, JournalDraft, JournalLease},
    journal_storage::JournalStorage,
    known_runs::KnownRuns,
    line_chain::LineChain,
    session_header::header_line,
    session_origin::SessionOrigin,
    writer::JournalWriter,
};
use shelly_core::{
    agent::journal::JournalRecord,
    digest::Sha256Digest,
    error::{cut, without_number},
    files, hex, limits,
    trust::UserKey,
};

/// All sessions of a project, in a [storage](JournalStorage).
#[derive(Debug, Clone)]
pub struct SessionStore {
    pub(super) journals: Arc<dyn JournalStorage>,
    pub(super) folder: PathBuf,
    pub(super) options: SessionStoreOptions,
}

/// The limits and settings of a store.
#[derive(Debug, Clone)]
pub struct SessionStoreOptions {
    /// A folder above the sessions folder. The folders between the two are created if missing and must not be links. `None`:
    /// the parent of the sessions folder exists and is trusted.
    pub root: Option<PathBuf>,
    /// The maximum number of sessions, at most [`limits::SESSIONS`].
    pub sessions: usize,
    /// The maximum bytes of all sessions; beyond it no session is created.
    pub sessions_bytes: u64,
    /// The maximum bytes of one session; beyond it writing fails and its runs end.
    pub session_bytes: u64,
    /// The maximum bytes of the recorded events of one session, at most [`limits::SESSION_EVENTS_BYTES`]; beyond it none is
    /// recorded. They do not count for `session_bytes`.
    pub events_bytes: u64,
    /// The credentials that are never written.
    pub secrets: Secrets,
    /// The key by which this person's sessions are recognized.
    pub own: UserKey,
    /// The last measurement of all sessions. Stores of one folder that share it create many sessions without measuring all of
    /// them each time.
    pub measured: MeasuredUsage,
}

impl Default for SessionStoreOptions {
    fn default() -> Self {
        Self {
            root: None,
            sessions: limits::SESSIONS,
            sessions_bytes: limits::SESSIONS_BYTES,
            session_bytes: limits::SESSION_BYTES,
            events_bytes: limits::SESSION_EVENTS_BYTES,
            secrets: Secrets::default(),
            own: UserKey::default(),
            measured: MeasuredUsage::default(),
        }
    }
}

/// The parameters of a new session.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// The name; if `None`, it is generated from the time and random digits.
    pub id: Option<String>,
    /// The agent that a person starts.
    pub agent: String,
    /// The model of that agent.
    pub model: String,
    /// The first task; it is cut.
    pub title: String,
    /// The session whose conversation this one continues.
    pub follows: Option<String>,
    /// The agents, teams, plugins and models in use.
    pub parts: Vec<SessionPart>,
    /// The command line options; omitted from the header if they are longer than [`limits::SESSION_OPTIONS_BYTES`].
    pub options: LaunchOptions,
}

/// The options for opening a session.
#[derive(Debug, Clone, Default)]
pub struct SessionOpenOptions {
    /// `true`: a damaged session is opened up to the damage. The whole journal is kept beside it as
    /// `journal.damaged-1.jsonl`, or with the next free number.
    pub up_to_damage: bool,
    /// The agents, teams, plugins and models in use from now on.
    pub parts: Vec<SessionPart>,
    /// `true`: a session that [is not own](super::Authorship::is_own) is refused. `false`: such a session is opened, and its
    /// further lines get no authentication codes.
    pub must_be_own: bool,
}

/// An opened session and the records in it.
#[derive(Debug)]
pub struct OpenedSession {
    /// The session, open for writing.
    pub session: Session,
    /// All records with their runs, in order.
    pub records: Vec<(u64, JournalRecord)>,
    /// The parts in use when it was last opened.
    pub parts: Vec<SessionPart>,
    /// Warnings about skipped content, for a person.
    pub warnings: Vec<String>,
}

impl SessionStore {
    /// Creates a store of files in this folder. No disk access.
    pub fn new(storage: Arc<dyn SessionStorage>, folder: impl Into<PathBuf>, options: SessionStoreOptions) -> Self {
        let folder = folder.into();
        let journals = FileJournals::new(storage, folder.clone(), options.root.clone());
        Self::with_journals(Arc::new(journals), folder, options)
    }

    /// Creates a store of the sessions in another storage. `folder` is for what belongs to a session and stays on this
    /// machine, such as the old content of changed files: it is in a folder of the session's name below it.
    pub fn with_journals(
        journals: Arc<dyn JournalStorage>,
        folder: impl Into<PathBuf>,
        options: SessionStoreOptions,
    ) -> Self {
        Self { journals, folder: folder.into(), options }
    }

    /// Returns the storage.
    pub fn journals(&self) -> &Arc<dyn JournalStorage> {
        &self.journals
    }

    /// Returns the folder of the sessions, or of what stays on this machine.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns `true` if a session may have this name: never a path, an option or a hidden file.
    pub fn is_name(name: &str) -> bool {
        is_name(name)
    }

    /// Returns `true` if there is a session of exactly this name; `false` if that cannot be determined.
    pub fn contains(&self, id: &str) -> bool {
        is_name(id) && self.journals.contains(id).unwrap_or(false)
    }

    /// Returns the full name of the session with this name, or of the only session whose name begins with it.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if there is none, if there are several, or if the folder cannot be read.
    pub fn resolve(&self, given: &str) -> Result<String, SessionError> {
        if !is_name(given) {
            return Err(SessionError::BadName { given: cut(given, limits::NAME_SHOWN_CHARS) });
        }
        if self.journals.contains(given)? {
            return Ok(given.to_owned());
        }
        let mut found: Vec<_> = self.names()?.into_iter().filter(|name| name.starts_with(given)).collect();
        found.sort_unstable();
        match found.len() {
            0 => Err(SessionError::NotFound { given: given.to_owned() }),
            1 => Ok(found.remove(0)),
            _ => {
                found.truncate(3);
                Err(SessionError::Ambiguous { given: given.to_owned(), some: found })
            }
        }
    }

    /// Creates a session and opens it for writing.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the name is invalid or taken, a limit of the store is reached, or the disk fails.
    pub fn create(&self, new: NewSession) -> Result<Session, SessionError> {
        let NewSession { id, agent, model, title, follows, parts, options } = new;
        let options = if options.size() > limits::SESSION_OPTIONS_BYTES { LaunchOptions::default() } else { options };
        let title = cut(&self.options.secrets.clean_text(title.trim()), limits::SESSION_TITLE_CHARS);
        let (id, mut draft) = self.draft(id)?;
        let header = SessionHeader {
            id,
            created: SystemTime::now(),
            host: env!("CARGO_PKG_VERSION").into(),
            agent,
            model,
            title,
            forked_from: None,
            follows,
            parts,
            options,
        };
        let line = self.append_header(&mut *draft, &header)?;
        // Without a mark the session is usable, but resuming it needs consent.
        let (chain, not_marked) = match self.mark_new(&mut *draft, &header.id, &line) {
            Ok(chain) => (Some(chain), None),
            Err(error) => {
                let report = error.report();
                let hint = report.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
                (None, Some(without_number(&report.to_string()) + &hint))
            }
        };
        let lease = draft.publish()?;
        let session = self.start(header, lease, (1, line.len() as u64), chain, KnownRuns::default())?;
        Ok(session.with_not_marked(not_marked))
    }

    /// Marks a session that this person creates, of which `line` is the first line, and returns the chain of its further
    /// lines.
    fn mark_new(&self, draft: &mut dyn JournalDraft, id: &str, line: &[u8]) -> Result<LineChain, SessionError> {
        let (mark, key) = self.new_mark(id, SessionOrigin::Person, 1, Sha256Digest::of(line))?;
        draft.set_mark(&mark.text())?;
        Ok(mark.chain(key))
    }

    /// Checks that the limits of this store allow `more` further sessions; those that are created meanwhile by others are not
    /// counted.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if a limit does not allow them, or if the folder cannot be read.
    pub fn check_room(&self, more: usize) -> Result<(), SessionError> {
        let recent = self.options.measured.recent(|| self.usage())?;
        // Sessions that were counted as created may have failed since.
        self.check_limits(recent, more).or_else(|_| self.check_limits(self.usage()?, more))
    }

    fn check_limits(&self, usage: SessionDiskUsage, more: usize) -> Result<(), SessionError> {
        let most = self.options.sessions.min(limits::SESSIONS);
        if usage.sessions.saturating_add(more) > most {
            return Err(SessionError::TooMany { there: usage.sessions, most });
        }
        if usage.bytes >= self.options.sessions_bytes {
            return Err(SessionError::TooLarge { there: usage.bytes, most: self.options.sessions_bytes });
        }
        Ok(())
    }

    /// Opens a session for writing. A truncated last line is removed.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the session does not exist, is in use, is damaged, is not own although that is required, or if
    /// the disk fails.
    pub fn open(&self, given: &str, opening: SessionOpenOptions) -> Result<OpenedSession, SessionError> {
        let id = self.resolve(given)?;
        let mut lease = self.journals.take(&id)?.ok_or_else(|| SessionError::InUse { id: id.clone() })?;
        let mut journal = self.watched(&id)?;
        let mut header = journal.header().clone();
        header.id.clone_from(&id);
        let (mut records, mut parts, mut runs) = (Vec::new(), header.parts.clone(), KnownRuns::default());
        let mut damage = None;
        for line in &mut journal {
            match line {
                Ok(line) => match line.what {
                    JournalLineContent::Opened { parts: newer, .. } => parts = newer,
                    JournalLineContent::Record(record) => {
                        runs.add(line.run, &record);
                        records.push((line.run, record));
                    }
                },
                Err(SessionError::Damaged { line, byte, reason, .. }) if opening.up_to_damage => {
                    damage = Some((line, byte, reason));
                }
                Err(error) => return Err(error),
            }
        }
        let authorship = journal.watch().authorship();
        if opening.must_be_own && !authorship.is_own() {
            return Err(SessionError::NotOwn { id, has_key: self.has_key(), authorship });
        }
        let chain = journal.watch().chain();
        let mut warnings = journal.warnings().to_vec();
        let (last, end) = match damage {
            None => (journal.line(), journal.at()),
            Some((line, byte, reason)) => {
                let copy = lease.set_aside()?;
                warnings.push(format!(
                    "the journal is damaged at line {line} ({reason}) and is opened up to that line; a copy of all of \
                     it is in {}",
                    copy.display()
                ));
                (line - 1, byte)
            }
        };
        lease.continue_after(last, end)?;
        let total = self.bytes_of(&id).saturating_sub(self.journals.events_bytes(&id));
        let session = self.start(header, lease, (last, total), chain, runs)?;
        session.opened(opening.parts);
        Ok(OpenedSession { session, records, parts, warnings })
    }

    /// Reads a session up to its present end; a process may be writing to it. The session is not changed.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the session does not exist, its header is damaged, or the disk fails.
    pub fn read(&self, given: &str) -> Result<JournalReader, SessionError> {
        let id = self.resolve(given)?;
        JournalReader::open(Arc::clone(&self.journals), &id)
    }

    fn start(
        &self,
        header: SessionHeader,
        lease: Box<dyn JournalLease>,
        (last, total): (u64, u64),
        chain: Option<LineChain>,
        runs: KnownRuns,
    ) -> Result<Session, SessionError> {
        let location = self.journals.location(&header.id);
        let most = self.options.events_bytes.min(limits::SESSION_EVENTS_BYTES);
        let events = EventLogWriter::new(Arc::clone(&self.journals), &header.id, (last, most));
        let writer = JournalWriter { lease, id: header.id.clone(), last, events };
        let folder = self.folder.join(&header.id);
        let bounds = (total, self.options.session_bytes);
        Session::start(header, folder, writer, bounds, chain, self.options.secrets.clone(), runs)
            .map_err(disk("start to write", &location))
    }

    /// Appends the first line to a draft, and returns it.
    pub(super) fn append_header(
        &self,
        draft: &mut dyn JournalDraft,
        header: &SessionHeader,
    ) -> Result<Vec<u8>, SessionError> {
        let line = header_line(header);
        if line.len() > limits::SESSION_HEADER_BYTES {
            let reason = format!("the header would have more than {} bytes", limits::SESSION_HEADER_BYTES);
            return Err(disk("write", &self.journals.location(&header.id))(io::Error::other(reason)));
        }
        draft.append(&JournalBatch { after: 0, last: 1, lines: &line, attachments: &[] })?;
        Ok(line)
    }

    /// Begins a session of this name, or of a new one, within the limits of this store. Returns its name too.
    pub(super) fn draft(&self, id: Option<String>) -> Result<(String, Box<dyn JournalDraft>), SessionError> {
        self.journals.prepare()?;
        let usage = self.options.measured.before_one_more(|| self.usage())?;
        self.check_limits(usage, 1)?;
        let id = id.map_or_else(|| self.new_name(), Ok)?;
        if !is_name(&id) {
            return Err(SessionError::BadName { given: cut(&id, limits::NAME_SHOWN_CHARS) });
        }
        let draft = self.journals.draft(&id, usage.sessions == 0)?;
        Ok((id, draft))
    }

    /// Returns the names of all sessions, in any order.
    pub(super) fn names(&self) -> Result<Vec<String>, SessionError> {
        let mut names = self.journals.names()?;
        names.retain(|name| is_name(name));
        Ok(names)
    }

    /// Returns a name such as `20261122-101530-7f3a9c`: UTC time and random digits.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the system has no random bytes.
    pub fn new_name(&self) -> Result<String, SessionError> {
        let time = humantime::format_rfc3339_seconds(files::writable_date(SystemTime::now())).to_string();
        let digits: String = time.chars().filter(char::is_ascii_digit).collect();
        let (day, time) = digits.split_at(digits.len().min(8));
        let mut random = [0; 3];
        getrandom::fill(&mut random)
            .map_err(|error| disk("create a name in", &self.folder)(io::Error::other(error)))?;
        Ok(format!("{day}-{time}-{}", hex::encode(random)))
    }
}
