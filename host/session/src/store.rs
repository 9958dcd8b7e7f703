use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::SystemTime,
};

use super::{
    JournalLineContent, JournalReader, LaunchOptions, MeasuredUsage, Secrets, Session, SessionDiskUsage, SessionError,
    SessionHeader, SessionPart, SessionStorage, StorageEntryKind, StoredFile,
    error::disk,
    event_log::EventLogWriter,
    file_names::{ATTACHMENTS, EVENTS, JOURNAL, LOCK, NEW},
    known_runs::KnownRuns,
    line_chain::LineChain,
    session_header::header_line,
    session_origin::SessionOrigin,
    storage::{remove_all, write_new},
    writer::JournalWriter,
};
use shelly_core::{
    agent::journal::JournalRecord,
    error::{cut, without_number},
    files, hex, limits,
    trust::UserKey,
};

/// The folder that holds all sessions of a project.
#[derive(Debug, Clone)]
pub struct SessionStore {
    pub(super) storage: Arc<dyn SessionStorage>,
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
    /// Creates a store for this folder. No disk access.
    pub fn new(storage: Arc<dyn SessionStorage>, folder: impl Into<PathBuf>, options: SessionStoreOptions) -> Self {
        Self { storage, folder: folder.into(), options }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
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
        let path = self.folder.join(given);
        if self.is_there()? {
            match self.storage.entry(&path) {
                Ok(entry) if entry.kind == StorageEntryKind::Folder => return Ok(given.to_owned()),
                Ok(_) => {
                    return Err(SessionError::NotOurs {
                        path,
                        reason: "expected a folder, found a link or a file".into(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(disk("read", &path)(error)),
            }
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
        let created = self.make(id, |folder, id| {
            let header = SessionHeader {
                id: id.to_owned(),
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
            let end = self.write_header(folder, &header)?;
            // Without a mark the session is usable, but resuming it needs consent.
            let marked = self.mark(folder, id, SessionOrigin::Person, (1, end)).map_err(|error| {
                let report = error.report();
                let hint = report.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
                without_number(&report.to_string()) + &hint
            });
            Ok((header, end, marked))
        })?;
        let CreatedSession { folder, lock, filled: (header, end, marked), .. } = created;
        let (chain, not_marked) = marked.map_or_else(|why| (None, Some(why)), |chain| (Some(chain), None));
        let path = folder.join(JOURNAL);
        let journal = self.storage.open(&path).map_err(disk("write", &path))?;
        let session = self.start(
            header,
            JournalWriter {
                storage: Arc::clone(&self.storage),
                id: String::new(),
                events: self.event_log(&folder, 1),
                folder,
                journal,
                end,
                kept: end,
                _lock: lock,
            },
            (1, end),
            chain,
            KnownRuns::default(),
        )?;
        Ok(session.with_not_marked(not_marked))
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
        let folder = self.folder.join(&id);
        let lock = self.lock(&id)?.ok_or_else(|| SessionError::InUse { id: id.clone() })?;
        // A tool that copies sessions may omit empty folders.
        let attachments = folder.join(ATTACHMENTS);
        self.storage.create_folder(&attachments).map_err(disk("make", &attachments))?;
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
                let copy = self.copy_aside(&folder)?;
                warnings.push(format!(
                    "the journal is damaged at line {line} ({reason}) and is opened up to that line; a copy of all of \
                     it is in {}",
                    copy.display()
                ));
                (line - 1, byte)
            }
        };
        let path = journal.path();
        let file = journal.into_file();
        if file.len().map_err(disk("read", &path))? > end {
            file.truncate(end).and_then(|()| file.sync()).map_err(disk("write", &path))?;
        }
        let total = self.bytes_of(&id).saturating_sub(self.events_bytes_of(&id));
        let writer = JournalWriter {
            storage: Arc::clone(&self.storage),
            id,
            events: self.event_log(&folder, last),
            folder,
            journal: file,
            end,
            kept: end,
            _lock: lock,
        };
        let session = self.start(header, writer, (last, total), chain, runs)?;
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
        JournalReader::open(Arc::clone(&self.storage), self.folder.join(id))
    }

    fn start(
        &self,
        header: SessionHeader,
        mut writer: JournalWriter,
        (last, total): (u64, u64),
        chain: Option<LineChain>,
        runs: KnownRuns,
    ) -> Result<Session, SessionError> {
        writer.id.clone_from(&header.id);
        let path = writer.journal_path();
        let bounds = (last, total, self.options.session_bytes);
        Session::start(header, writer, bounds, chain, self.options.secrets.clone(), runs)
            .map_err(disk("start to write", &path))
    }

    /// Returns the writer of the events of the session in this folder, whose journal has `last` lines.
    fn event_log(&self, folder: &Path, last: u64) -> EventLogWriter {
        EventLogWriter::new(&self.storage, folder, (last, self.options.events_bytes.min(limits::SESSION_EVENTS_BYTES)))
    }

    /// Returns the size of the recorded events of a session in bytes; 0 if there are none.
    fn events_bytes_of(&self, id: &str) -> u64 {
        let entry = self.storage.entry(&self.folder.join(id).join(EVENTS));
        entry.ok().filter(|entry| entry.kind == StorageEntryKind::File).map_or(0, |entry| entry.len)
    }

    /// Copies a journal before a part of it is cut off.
    fn copy_aside(&self, folder: &Path) -> Result<PathBuf, SessionError> {
        let from = folder.join(JOURNAL);
        let mut to = (1..).map(|n: u32| folder.join(format!("journal.damaged-{n}.jsonl")));
        let to = to.find(|path| self.storage.entry(path).is_err()).unwrap_or_default();
        self.copy(&from, &to)?;
        self.storage.sync_folder(folder).map_err(disk("write", folder))?;
        Ok(to)
    }

    /// Copies a file to a new one.
    pub(super) fn copy(&self, from: &Path, to: &Path) -> Result<(), SessionError> {
        const AT_ONCE: usize = 1 << 20;
        let (read, write) = (|error| disk("read", from)(error), |error| disk("write", to)(error));
        let source = self.storage.open(from).map_err(read)?;
        let copy = self.storage.open_or_create(to).map_err(write)?;
        copy.truncate(0).map_err(write)?;
        let (mut buffer, mut at) = (vec![0; AT_ONCE], 0);
        loop {
            let count = source.read_full_at(&mut buffer, at).map_err(read)?;
            if count == 0 {
                return copy.sync().map_err(write);
            }
            copy.write_all_at(&buffer[..count], at).map_err(write)?;
            at += count as u64;
        }
    }

    /// Writes a journal of one line, and returns its length.
    pub(super) fn write_header(&self, folder: &Path, header: &SessionHeader) -> Result<u64, SessionError> {
        let path = folder.join(JOURNAL);
        let line = header_line(header);
        if line.len() > limits::SESSION_HEADER_BYTES {
            let reason = format!("the header would have more than {} bytes", limits::SESSION_HEADER_BYTES);
            return Err(disk("write", &path)(io::Error::other(reason)));
        }
        write_new(&*self.storage, &path, &line).map_err(disk("write", &path))?;
        Ok(line.len() as u64)
    }

    /// Creates a session's folder atomically: it gets its name once its content is on disk.
    pub(super) fn make<T>(
        &self,
        id: Option<String>,
        fill: impl FnOnce(&Path, &str) -> Result<T, SessionError>,
    ) -> Result<CreatedSession<T>, SessionError> {
        self.create_folders()?;
        let usage = self.options.measured.before_one_more(|| self.usage())?;
        self.check_limits(usage, 1)?;
        if usage.sessions == 0 {
            self.sync_folders()?;
        }
        let id = id.map_or_else(|| self.new_name(), Ok)?;
        if !is_name(&id) {
            return Err(SessionError::BadName { given: cut(&id, limits::NAME_SHOWN_CHARS) });
        }
        let folder = self.folder.join(&id);
        let exists = || SessionError::Exists { id: id.clone(), in_use: self.is_in_use(&id) };
        if self.storage.entry(&folder).is_ok() {
            return Err(exists());
        }
        let beside = self.folder.join(format!("{NEW}{}", self.random(8)?));
        let created = self.fill(&beside, &id, fill).and_then(|(lock, filled)| {
            match self.storage.rename(&beside, &folder) {
                Err(error) if is_taken(&error) => return Err(exists()),
                renamed => renamed.map_err(disk("write", &folder))?,
            }
            match self.storage.sync_folder(&self.folder) {
                Ok(()) => Ok((lock, filled)),
                Err(error) => {
                    let _ = remove_all(&*self.storage, &folder, limits::SESSION_FOLDERS_DEEP);
                    Err(disk("write", &self.folder)(error))
                }
            }
        });
        match created {
            Ok((lock, filled)) => Ok(CreatedSession { id: id.clone(), folder, lock, filled }),
            Err(error) => {
                let _ = remove_all(&*self.storage, &beside, limits::SESSION_FOLDERS_DEEP);
                Err(error)
            }
        }
    }

    fn fill<T>(
        &self,
        folder: &Path,
        id: &str,
        fill: impl FnOnce(&Path, &str) -> Result<T, SessionError>,
    ) -> Result<(Box<dyn StoredFile>, T), SessionError> {
        let attachments = folder.join(ATTACHMENTS);
        let make = |folder: &Path| self.storage.create_folder(folder).map_err(disk("make", folder));
        make(folder)?;
        let path = folder.join(LOCK);
        let lock = self.storage.open_or_create(&path).map_err(disk("make", &path))?;
        if !lock.try_lock().map_err(disk("lock", &path))? {
            return Err(SessionError::InUse { id: id.to_owned() });
        }
        make(&attachments)?;
        let filled = fill(folder, id)?;
        for folder in [&attachments, folder] {
            self.storage.sync_folder(folder).map_err(disk("write", folder))?;
        }
        Ok((lock, filled))
    }

    /// Locks a session; returns `None` if another process holds the lock. Fails if the session has been removed.
    pub(super) fn lock(&self, id: &str) -> Result<Option<Box<dyn StoredFile>>, SessionError> {
        let (folder, path) = (self.folder.join(id), self.folder.join(id).join(LOCK));
        let gone = || SessionError::NotFound { given: id.to_owned() };
        let lock = match self.storage.open_or_create(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone()),
            lock => lock.map_err(disk("lock", &path))?,
        };
        for attempt in 0..limits::SESSION_LOCK_TRIES {
            if attempt > 0 {
                thread::sleep(limits::SESSION_LOCK_PAUSE);
            }
            if lock.try_lock().map_err(disk("lock", &path))? {
                // Another process may have removed the session before the lock was taken.
                return match self.storage.entry(&folder) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Err(gone()),
                    there => there.map(|_| Some(lock)).map_err(disk("read", &folder)),
                };
            }
        }
        Ok(None)
    }

    /// Returns the folders between the root and the sessions, the outermost first.
    fn folders(&self) -> Vec<&Path> {
        let Some(root) = &self.options.root else { return vec![&self.folder] };
        let mut folders: Vec<_> = self.folder.ancestors().take_while(|folder| folder != root).collect();
        folders.reverse();
        folders
    }

    fn create_folders(&self) -> Result<(), SessionError> {
        self.folders()
            .into_iter()
            .try_for_each(|folder| self.storage.create_folder(folder).map(|_| ()).map_err(disk("make", folder)))
    }

    /// Returns once the folders themselves are durable across power loss.
    fn sync_folders(&self) -> Result<(), SessionError> {
        self.folders().into_iter().filter_map(Path::parent).try_for_each(|above| {
            // The path may be relative.
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            self.storage.sync_folder(above).map_err(disk("write", above))
        })
    }

    /// Returns `true` if the sessions folder exists.
    fn is_there(&self) -> Result<bool, SessionError> {
        for path in self.folders() {
            match self.storage.entry(path) {
                Ok(entry) if entry.kind == StorageEntryKind::Folder => {}
                Ok(_) => {
                    let reason = "expected a folder, found a link or a file".into();
                    return Err(SessionError::NotOurs { path: path.to_owned(), reason });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(disk("read", path)(error)),
            }
        }
        Ok(true)
    }

    /// Returns the names of all folders in the sessions folder, in any order: sessions, and folders that begin with a dot.
    pub(super) fn all_names(&self) -> Result<Vec<String>, SessionError> {
        if !self.is_there()? {
            return Ok(Vec::new());
        }
        let most = 2 * limits::SESSIONS;
        let entries = self.storage.entries(&self.folder, most).map_err(disk("read", &self.folder))?;
        Ok(entries.into_iter().filter(|entry| entry.kind == StorageEntryKind::Folder).map(|entry| entry.name).collect())
    }

    /// Returns the names of all sessions, in any order.
    pub(super) fn names(&self) -> Result<Vec<String>, SessionError> {
        let mut names = self.all_names()?;
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
        Ok(format!("{day}-{time}-{}", self.random(3)?))
    }

    /// Returns random bytes as hexadecimal digits.
    pub(super) fn random(&self, bytes: usize) -> Result<String, SessionError> {
        let mut random = vec![0; bytes];
        getrandom::fill(&mut random)
            .map_err(|error| disk("create a name in", &self.folder)(io::Error::other(error)))?;
        Ok(hex::encode(random))
    }
}

/// A newly created session.
pub(super) struct CreatedSession<T> {
    pub id: String,
    pub folder: PathBuf,
    pub lock: Box<dyn StoredFile>,
    pub filled: T,
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty)
}

/// Returns `true` if a session may have this name: never a path, an option or a hidden file.
pub(super) fn is_name(name: &str) -> bool {
    (1..=limits::SESSION_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && !name.starts_with(['.', '-'])
}
