//! The sources of credentials: the config itself, the environment, files, and programs that print them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::OnceCell;

use super::{
    Secret,
    secret_command::{self, SecretCommandError},
    status,
};
use shelly_core::{
    error::why_unreadable,
    files::{self, FileReadError},
    limits,
};

/// The source of a credential. Neither [`fmt::Display`] nor [`fmt::Debug`] shows a value or the arguments of a command.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum SecretSource {
    /// The credential itself.
    Literal(Secret),
    /// An environment variable.
    Env(String),
    /// The first line of a file, given by its absolute path, of at most [`limits::SECRET_BYTES`].
    File(PathBuf),
    /// The first line that a program prints, given by its name or absolute path and its arguments. No shell is involved. The
    /// program has [`limits::SECRET_COMMAND_TIME`], and cannot ask at the terminal.
    Command(Vec<String>),
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("the value in the config"),
            Self::Env(name) => write!(f, "the environment variable `{}`", shown(name)),
            Self::File(path) => write!(f, "the file `{}`", shown(&path.to_string_lossy())),
            Self::Command(words) => write!(f, "the command `{}`", shown(words.first().map_or("", String::as_str))),
        }
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretSource({self})")
    }
}

fn shown(text: &str) -> String {
    status::shown(text, &[], limits::SECRET_COMMAND_ERROR_BYTES)
}

/// The reason why there is no credential. Never shows one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum SecretError {
    /// The variable does not exist.
    #[error("{place} is not set")]
    Unset { place: SecretSource },
    /// The source contains only white space.
    #[error("{place} is empty")]
    Empty { place: SecretSource },
    /// A path, or a program with a slash in its name, that depends on the working directory of this process.
    #[error("{place} is not given as an absolute path")]
    Relative { place: SecretSource },
    /// The file cannot be read.
    #[error("{place} cannot be read: {why}")]
    Unreadable { place: SecretSource, why: String },
    /// The source contains more than a secret can have.
    #[error("{place} has more than {most} bytes, too many for a secret")]
    TooLarge { place: SecretSource, most: u64 },
    /// The program's output is not text.
    #[error("{place} printed text that is not UTF-8")]
    NotText { place: SecretSource },
    /// The command has no program, or too many arguments.
    #[error("the command for a secret has {words} words; write a program and up to {} arguments", limits::SECRET_COMMAND_WORDS - 1)]
    Words { words: usize },
    /// The program could not be started.
    #[error("{place} cannot be run: {why}")]
    Start { place: SecretSource, why: String },
    /// The program reported a failure.
    #[error("{place} failed ({status}){}{stderr}", if stderr.is_empty() { "" } else { ": " })]
    Failed { place: SecretSource, status: String, stderr: String },
    /// The program did not end in time.
    #[error("{place} did not end within {time:?}")]
    Time { place: SecretSource, time: Duration },
}

impl SecretError {
    /// Returns advice on how to fix the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unset { .. } => "set it where this program is started, and export it",
            Self::Empty { .. } => "put the secret into its first line",
            Self::Relative { .. } => "write an absolute path, or the bare name of a program in PATH",
            Self::Unreadable { .. } => "name a file that you can read and that contains only the secret",
            Self::TooLarge { .. } | Self::NotText { .. } => "name a source that contains only the secret",
            Self::Words { .. } => "write the program and its arguments as a list, such as [pass, show, openai]",
            Self::Start { .. } => "install the program, or name another",
            Self::Failed { .. } => "run it yourself; it must print the secret and exit with 0",
            Self::Time { .. } => "run it yourself; it must end without a question at the terminal",
        }
    }
}

/// A credential, with a warning about its source if necessary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedSecret {
    /// The credential.
    pub secret: Secret,
    /// A warning for a file that others can read, with the fix.
    pub warning: Option<String>,
}

impl From<Secret> for ResolvedSecret {
    fn from(secret: Secret) -> Self {
        Self { secret, warning: None }
    }
}

/// Resolves credentials, and caches those from files and programs for its lifetime, because a program may prompt a person.
/// Clones share the cache. Failures are not cached.
#[derive(Clone, Default)]
pub struct Keyring {
    kept: Arc<Mutex<HashMap<SecretSource, Arc<OnceCell<ResolvedSecret>>>>>,
    /// Credentials that others look up, by name.
    noted: Arc<Mutex<BTreeMap<String, Secret>>>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyring(***)")
    }
}

impl Keyring {
    /// Returns the credential from `source`. Concurrent requests for the same source share one lookup. Beyond
    /// [`limits::SECRETS_KEPT`] cached credentials, each request looks it up again.
    ///
    /// # Errors
    ///
    /// A [`SecretError`] that names the source, the cause and, as a hint, the fix.
    pub async fn resolve(
        &self,
        source: &SecretSource,
        environment: &(dyn Fn(&str) -> Option<String> + Send + Sync),
    ) -> Result<ResolvedSecret, SecretError> {
        match source {
            SecretSource::Literal(secret) => first_line(source, secret.expose()).map(ResolvedSecret::from),
            SecretSource::Env(name) => {
                let value = environment(name).ok_or_else(|| SecretError::Unset { place: source.clone() })?;
                first_line(source, &value).map(ResolvedSecret::from)
            }
            SecretSource::File(path) => self.place(source).get_or_try_init(|| in_file(source, path)).await.cloned(),
            SecretSource::Command(words) => {
                self.place(source).get_or_try_init(|| printed(source, words)).await.cloned()
            }
        }
    }

    /// Returns the credential from `source` if it is known without a lookup: it is a literal, in the environment, or cached.
    pub fn known(&self, source: &SecretSource, environment: &dyn Fn(&str) -> Option<String>) -> Option<Secret> {
        match source {
            SecretSource::Literal(secret) => Some(secret.clone()),
            SecretSource::Env(name) => first_line(source, &environment(name)?).ok(),
            SecretSource::File(_) | SecretSource::Command(_) => {
                let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                Some(kept.get(source)?.get()?.secret.clone())
            }
        }
    }

    /// Notes a credential that was not looked up here, such as the token of a server, so that [`kept`](Self::kept) returns
    /// it. At most [`limits::SECRETS_KEPT`] are noted.
    pub fn note(&self, name: impl Into<String>, secret: Secret) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let name = name.into();
        if noted.len() < limits::SECRETS_KEPT || noted.contains_key(&name) {
            noted.insert(name, secret);
        }
    }

    /// Returns the cached credentials from files and programs, each with its source, and the noted ones with their names.
    pub fn kept(&self) -> impl Iterator<Item = (String, Secret)> {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |(source, place): (&SecretSource, &Arc<OnceCell<ResolvedSecret>>)| {
            Some((source.to_string(), place.get()?.secret.clone()))
        };
        kept.iter().filter_map(found).chain(noted).collect::<Vec<_>>().into_iter()
    }

    fn place(&self, source: &SecretSource) -> Arc<OnceCell<ResolvedSecret>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.get(source) {
            Some(place) => place.clone(),
            None if kept.len() < limits::SECRETS_KEPT => kept.entry(source.clone()).or_default().clone(),
            None => Arc::default(),
        }
    }
}

/// Returns the first non-empty line. The lines after it are notes for people, as in the files of `pass`.
fn first_line(source: &SecretSource, text: &str) -> Result<Secret, SecretError> {
    if text.len() as u64 > limits::SECRET_BYTES {
        return Err(SecretError::TooLarge { place: source.clone(), most: limits::SECRET_BYTES });
    }
    let line = text.trim().lines().next().ok_or_else(|| SecretError::Empty { place: source.clone() })?;
    Ok(Secret::new(line))
}

async fn in_file(source: &SecretSource, path: &Path) -> Result<ResolvedSecret, SecretError> {
    if !path.is_absolute() {
        return Err(SecretError::Relative { place: source.clone() });
    }
    let unreadable = |why: String| SecretError::Unreadable { place: source.clone(), why };
    let file = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        // Follows links anywhere, because orchestrators mount secrets as links.
        let root = file.ancestors().last().unwrap_or(&file);
        files::read(&file, root, limits::SECRET_BYTES).map(|text| (text, mode_if_shared(&file)))
    });
    let (text, mode) = match read.await.map_err(|_| unreadable("the read was aborted".into()))? {
        Ok(read) => read,
        Err(FileReadError::TooLarge(most)) => return Err(SecretError::TooLarge { place: source.clone(), most }),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let warning = mode.map(|mode| {
        format!(
            "{source} contains a secret, but others on this machine can read it (mode {mode:03o}); set its mode to 600"
        )
    });
    Ok(ResolvedSecret { secret: first_line(source, &text)?, warning })
}

/// Returns the mode of a file that its group or everyone may read.
#[cfg(unix)]
fn mode_if_shared(path: &Path) -> Option<u32> {
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().ok()?.permissions());
    (mode & 0o044 != 0).then_some(mode & 0o777)
}

#[cfg(not(unix))]
fn mode_if_shared(_: &Path) -> Option<u32> {
    None
}

async fn printed(source: &SecretSource, words: &[String]) -> Result<ResolvedSecret, SecretError> {
    let (program, arguments) = match words.split_first() {
        Some(split) if words.len() <= limits::SECRET_COMMAND_WORDS => split,
        _ => return Err(SecretError::Words { words: words.len() }),
    };
    let place = || source.clone();
    if program.contains(std::path::is_separator) && !Path::new(program).is_absolute() {
        return Err(SecretError::Relative { place: place() });
    }
    let (most, time) = (limits::SECRET_BYTES, limits::SECRET_COMMAND_TIME);
    let output = secret_command::run(program, arguments, most, time).await.map_err(|failure| match failure {
        SecretCommandError::Io(error) => SecretError::Start { place: place(), why: why_not_run(&error) },
        SecretCommandError::Time => SecretError::Time { place: place(), time },
        SecretCommandError::TooMuch => SecretError::TooLarge { place: place(), most },
    })?;
    let text = String::from_utf8(output.stdout).map_err(|_| SecretError::NotText { place: place() });
    if !output.status.success() {
        // Redacts the secret, in case the error output contains it.
        let secret = text.ok().and_then(|text| first_line(source, &text).ok());
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stderr = status::shown(stderr.trim(), secret.as_slice(), limits::SECRET_COMMAND_ERROR_BYTES);
        return Err(SecretError::Failed { place: place(), status: output.status.to_string(), stderr });
    }
    first_line(source, &text?).map(ResolvedSecret::from)
}

fn why_not_run(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such program".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => why_unreadable(error),
    }
}

#[cfg(test)]
mod tests;
