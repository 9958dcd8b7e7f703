use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::SystemTime,
};

use super::{
    JournalLineContent, JournalReader, LaunchOptions, Secrets, Session, SessionError, SessionHeader, SessionPart,
    SessionStorage, StorageEntryKind, StoredFile,
    chain::LineChain,
    error::disk,
    format::header_line,
    ownership::SessionAuthor,
    storage::remove_all,
    writer::{ATTACHMENTS, JOURNAL, JournalWriter, LOCK, write_new},
};
use crate::{
    agent::journal::JournalRecord,
    error::{cut, without_number},
    files, limits,
    trust::UserKey,
};

/// The folder that holds all sessions of a project.
#[derive(Debug, Clone)]
pub struct SessionStore {
    pub(super) storage: Arc<dyn SessionStorage>,
    pub(super) folder: PathBuf,
    pub(super) options: SessionStoreOptions,
}

/// What a store may use, and what it keeps out.
#[derive(Debug, Clone)]
pub struct SessionStoreOptions {
    /// A folder above the sessions: what is between the two must not be links, and is made if it is missing. None: the
    /// folder above the sessions is there, and is trusted.
    pub root: Option<PathBuf>,
    /// Sessions that there may be; at most [`limits::SESSIONS`].
    pub sessions: usize,
    /// Bytes of all of them; beyond it no further one is made.
    pub sessions_bytes: u64,
    /// Bytes of one of them; beyond it nothing more is written, and its runs end.
    pub session_bytes: u64,
    /// What is never written.
    pub secrets: Secrets,
    /// By which the sessions that are made here are known again.
    pub own: UserKey,
}

impl Default for SessionStoreOptions {
    fn default() -> Self {
        Self {
            root: None,
            sessions: limits::SESSIONS,
            sessions_bytes: limits::SESSIONS_BYTES,
            session_bytes: limits::SESSION_BYTES,
            secrets: Secrets::default(),
            own: UserKey::default(),
        }
    }
}

/// A session that is to be made.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// Its name; made up if there is none, from the time and chance.
    pub id: Option<String>,
    /// The agent that a person starts.
    pub agent: String,
    /// Its model.
    pub model: String,
    /// Its first task; cut.
    pub title: String,
    /// The session whose conversation it goes on with.
    pub follows: Option<String>,
    /// What it is run with.
    pub parts: Vec<SessionPart>,
    /// What the command line names; left out of the header if it is longer than [`limits::SESSION_OPTIONS_BYTES`].
    pub options: LaunchOptions,
}

/// How a session is opened.
#[derive(Debug, Clone, Default)]
pub struct SessionOpenOptions {
    /// Whether a damaged session is opened up to the damage: all of its journal is kept beside it then, in
    /// `journal.damaged-1.jsonl` or with the next number that is free.
    pub up_to_damage: bool,
    /// What it is run with from now on.
    pub parts: Vec<SessionPart>,
    /// `true`: a session that [is not own](super::Authorship::is_own) is refused. Otherwise it is opened all the same, and nobody
    /// vouches for what is written to it.
    pub must_be_own: bool,
}

/// A session that was opened, and what happened in it.
#[derive(Debug)]
pub struct OpenedSession {
    /// To be written on.
    pub session: Session,
    /// Every record, with its run, in order.
    pub records: Vec<(u64, JournalRecord)>,
    /// What it was run with when it was last opened.
    pub parts: Vec<SessionPart>,
    /// What was left out, for a person.
    pub warnings: Vec<String>,
}

impl SessionStore {
    /// The sessions in this folder. Nothing is looked at.
    pub fn new(storage: Arc<dyn SessionStorage>, folder: impl Into<PathBuf>, options: SessionStoreOptions) -> Self {
        Self { storage, folder: folder.into(), options }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The full name of the session that is named so, or whose name alone begins so.
    ///
    /// # Errors
    ///
    /// [`SessionError`]: there is none, there are several, the folder cannot be read.
    pub fn resolve(&self, given: &str) -> Result<String, SessionError> {
        if !is_name(given) {
            return Err(SessionError::BadName { given: cut(given, limits::NAME_SHOWN_CHARS) });
        }
        let path = self.folder.join(given);
        if self.is_there()? {
            match self.storage.entry(&path) {
                Ok(entry) if entry.kind == StorageEntryKind::Folder => return Ok(given.to_owned()),
                Ok(_) => return Err(SessionError::NotOurs { path, reason: "it is a link or a file".into() }),
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

    /// Makes a session, open for writing.
    ///
    /// # Errors
    ///
    /// [`SessionError`]: the name cannot be one or is taken, the sessions fill what they may, the disk says no.
    pub fn create(&self, new: NewSession) -> Result<Session, SessionError> {
        let NewSession { id, agent, model, title, follows, parts, options } = new;
        let options = if options.size() > limits::SESSION_OPTIONS_BYTES { LaunchOptions::default() } else { options };
        let title = cut(&self.options.secrets.clean_text(title.trim()), limits::SESSION_TITLE_CHARS);
        let made = self.make(id, |folder, id| {
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
            // Without one it can be used: it is asked about when it is gone on with.
            let marked = self.mark(folder, id, SessionAuthor::Person, (1, end)).map_err(|error| {
                let report = error.report();
                let hint = report.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
                without_number(&report.to_string()) + &hint
            });
            Ok((header, end, marked))
        })?;
        let CreatedSession { folder, lock, filled: (header, end, marked), .. } = made;
        let (chain, not_marked) = marked.map_or_else(|why| (None, Some(why)), |chain| (Some(chain), None));
        let path = folder.join(JOURNAL);
        let journal = self.storage.open(&path).map_err(disk("write", &path))?;
        let session = self.start(
            header,
            JournalWriter {
                storage: Arc::clone(&self.storage),
                id: String::new(),
                folder,
                journal,
                end,
                kept: end,
                _lock: lock,
            },
            (1, end),
            chain,
            HashSet::new(),
        )?;
        Ok(session.with_not_marked(not_marked))
    }

    /// Opens a session to go on with it. A last line that was cut off goes.
    ///
    /// # Errors
    ///
    /// [`SessionError`]: there is none, it is in use, it is damaged, the disk says no.
    pub fn open(&self, given: &str, opening: SessionOpenOptions) -> Result<OpenedSession, SessionError> {
        let id = self.resolve(given)?;
        let folder = self.folder.join(&id);
        let lock = self.lock(&id)?.ok_or_else(|| SessionError::InUse { id: id.clone() })?;
        // Whoever copies sessions may leave out folders in which there is nothing.
        let attachments = folder.join(ATTACHMENTS);
        self.storage.create_folder(&attachments).map_err(disk("make", &attachments))?;
        let mut journal = self.watched(&id)?;
        let mut header = journal.header().clone();
        header.id.clone_from(&id);
        let (mut records, mut parts, mut top) = (Vec::new(), header.parts.clone(), HashSet::new());
        let mut damage = None;
        for line in &mut journal {
            match line {
                Ok(line) => match line.what {
                    JournalLineContent::Opened { parts: newer, .. } => parts = newer,
                    JournalLineContent::Record(record) => {
                        if matches!(record, JournalRecord::Began { errand: None, .. }) {
                            top.insert(line.run);
                        }
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
                    "the journal is damaged at line {line} ({reason}) and is opened up to there; all of it is in {}",
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
        let total = self.bytes_of(&id);
        let place = JournalWriter {
            storage: Arc::clone(&self.storage),
            id,
            folder,
            journal: file,
            end,
            kept: end,
            _lock: lock,
        };
        let session = self.start(header, place, (last, total), chain, top)?;
        session.opened(opening.parts);
        Ok(OpenedSession { session, records, parts, warnings })
    }

    /// Reads a session, which somebody may write to: up to what is there by now. Nothing is changed.
    ///
    /// # Errors
    ///
    /// [`SessionError`]: there is none, its header is damaged, the disk says no.
    pub fn read(&self, given: &str) -> Result<JournalReader, SessionError> {
        let id = self.resolve(given)?;
        JournalReader::open(Arc::clone(&self.storage), self.folder.join(id))
    }

    fn start(
        &self,
        header: SessionHeader,
        mut place: JournalWriter,
        (last, total): (u64, u64),
        chain: Option<LineChain>,
        top: HashSet<u64>,
    ) -> Result<Session, SessionError> {
        place.id.clone_from(&header.id);
        let path = place.journal_path();
        let bounds = (last, total, self.options.session_bytes);
        Session::start(header, place, bounds, chain, self.options.secrets.clone(), top)
            .map_err(disk("start to write", &path))
    }

    /// Copies a journal, before a part of it is cut off.
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
            let reason = format!("its first line would have more than {} bytes", limits::SESSION_HEADER_BYTES);
            return Err(disk("write", &path)(io::Error::other(reason)));
        }
        write_new(&*self.storage, &path, &line).map_err(disk("write", &path))?;
        Ok(line.len() as u64)
    }

    /// Makes a session's folder whole: it has its name once all that is in it is on the disk.
    pub(super) fn make<T>(
        &self,
        id: Option<String>,
        fill: impl FnOnce(&Path, &str) -> Result<T, SessionError>,
    ) -> Result<CreatedSession<T>, SessionError> {
        self.create_folders()?;
        let usage = self.usage()?;
        let most = self.options.sessions.min(limits::SESSIONS);
        if usage.sessions >= most {
            return Err(SessionError::TooMany { there: usage.sessions, most });
        }
        if usage.bytes >= self.options.sessions_bytes {
            return Err(SessionError::TooLarge { there: usage.bytes, most: self.options.sessions_bytes });
        }
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
        let made = self.fill(&beside, &id, fill).and_then(|(lock, filled)| {
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
        match made {
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

    /// Takes a session for oneself; none if somebody else has it. It may be gone by now.
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
                // Somebody may have removed it in between.
                return match self.storage.entry(&folder) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Err(gone()),
                    there => there.map(|_| Some(lock)).map_err(disk("read", &folder)),
                };
            }
        }
        Ok(None)
    }

    /// The folders between the root and the sessions, the outermost first.
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

    /// Returns once the folders themselves would survive a loss of power.
    fn sync_folders(&self) -> Result<(), SessionError> {
        self.folders().into_iter().filter_map(Path::parent).try_for_each(|above| {
            // The path may be relative.
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            self.storage.sync_folder(above).map_err(disk("write", above))
        })
    }

    /// Whether the folder is there.
    fn is_there(&self) -> Result<bool, SessionError> {
        for path in self.folders() {
            match self.storage.entry(path) {
                Ok(entry) if entry.kind == StorageEntryKind::Folder => {}
                Ok(_) => {
                    let reason = "a link or a file stands where a folder should be".into();
                    return Err(SessionError::NotOurs { path: path.to_owned(), reason });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(disk("read", path)(error)),
            }
        }
        Ok(true)
    }

    /// The names of all sessions, in any order, and of what else is in the folder and begins with a dot.
    pub(super) fn all_names(&self) -> Result<Vec<String>, SessionError> {
        if !self.is_there()? {
            return Ok(Vec::new());
        }
        let most = 2 * limits::SESSIONS;
        let entries = self.storage.entries(&self.folder, most).map_err(disk("read", &self.folder))?;
        Ok(entries.into_iter().filter(|entry| entry.kind == StorageEntryKind::Folder).map(|entry| entry.name).collect())
    }

    /// The names of all sessions, in any order.
    pub(super) fn names(&self) -> Result<Vec<String>, SessionError> {
        let mut names = self.all_names()?;
        names.retain(|name| is_name(name));
        Ok(names)
    }

    /// `20261122-101530-7f3a9c`: when in UTC, and chance.
    fn new_name(&self) -> Result<String, SessionError> {
        let time = humantime::format_rfc3339_seconds(files::writable_date(SystemTime::now())).to_string();
        let digits: String = time.chars().filter(char::is_ascii_digit).collect();
        let (day, time) = digits.split_at(digits.len().min(8));
        Ok(format!("{day}-{time}-{}", self.random(3)?))
    }

    /// Random bytes as hexadecimal digits.
    pub(super) fn random(&self, bytes: usize) -> Result<String, SessionError> {
        let mut random = vec![0; bytes];
        getrandom::fill(&mut random).map_err(|error| disk("make a name in", &self.folder)(io::Error::other(error)))?;
        Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// A session that was made.
pub(super) struct CreatedSession<T> {
    pub id: String,
    pub folder: PathBuf,
    pub lock: Box<dyn StoredFile>,
    pub filled: T,
}

/// What the names of folders begin with that are not sessions yet, or not any more.
pub(super) const NEW: &str = ".new-";
pub(super) const GONE: &str = ".gone-";

fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty)
}

/// Whether a session may be named so: never a path, an option or a hidden file.
pub(super) fn is_name(name: &str) -> bool {
    (1..=limits::SESSION_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && !name.starts_with(['.', '-'])
}
