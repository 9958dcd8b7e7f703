//! Bounded and atomic access to text files in folders that a person has named: reads stay inside the folder, writes are all
//! or nothing.

use std::{
    fs,
    io::{self, Read, Write},
    ops::{Deref, DerefMut},
    path::{Component, Path, PathBuf},
    sync::OnceLock,
    time::SystemTime,
};

use crate::{error::why_unreadable, limits};

/// Opens a regular file for reading. Anything else is refused before it can block the host or act: opening a pipe waits for
/// a writer, and opening a device may act on it.
pub fn open(path: &Path) -> io::Result<fs::File> {
    check_regular(&fs::metadata(path)?)?;
    let mut options = fs::OpenOptions::new();
    options.read(true);
    // A pipe may have replaced the file in between.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

fn check_regular(there: &fs::Metadata) -> io::Result<()> {
    let kind = there.file_type();
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        for (is_it, what) in [
            (kind.is_fifo(), "a pipe"),
            (kind.is_socket(), "a socket"),
            (kind.is_char_device() || kind.is_block_device(), "a device"),
        ] {
            if is_it {
                return Err(io::Error::other(format!("expected a file, found {what}")));
            }
        }
    }
    Err(io::Error::other("not a regular file"))
}

/// The reason for which a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum FileReadError {
    /// An error of the operating system.
    #[error("{}", why_unreadable(.0))]
    Io(#[from] io::Error),
    /// The path is a link that leads out of the folder.
    #[error("the link leads out of {}", .0.display())]
    Outside(PathBuf),
    /// The file exceeds the size limit.
    #[error("larger than {0} bytes")]
    TooLarge(u64),
    /// The file is not UTF-8 text.
    #[error("not UTF-8 text from line {line} on")]
    NotText {
        /// The first line that is not, counted from 1.
        line: usize,
    },
}

/// Clamps a time to the range of writable dates: an unset clock may be before 1970, and formatting such a time panics.
pub fn writable_date(time: SystemTime) -> SystemTime {
    time.clamp(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + limits::LAST_DATE)
}

/// Returns a path without links and `..`; if the path does not exist, only `..` is resolved.
pub fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| normalized(path))
}

/// Removes `.` and `..` from a path without looking at the file system.
pub fn normalized(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normalized, part| {
        match part {
            Component::ParentDir => drop(normalized.pop()),
            Component::CurDir => {}
            part => normalized.push(part),
        }
        normalized
    })
}

/// Removes from a path what says nothing to a person: `.` at its beginning, in it and at its end, and a slash at its end. The
/// current folder is `.`.
pub fn without_dots(path: &Path) -> PathBuf {
    let parts: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    if parts.as_os_str().is_empty() { PathBuf::from(".") } else { parts }
}

/// The beginning of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct FileHead {
    /// The text, without a byte order mark.
    pub text: String,
    /// `true` if the text is the whole file.
    pub is_whole: bool,
}

/// Reads the first `most` bytes of a text file, cut at a character boundary. A link may not lead out of the folder `inside`.
pub fn read_start(path: &Path, inside: &Path, most: u64) -> Result<FileHead, FileReadError> {
    let (path, inside) = (path.canonicalize()?, inside.canonicalize()?);
    if !path.starts_with(&inside) {
        return Err(FileReadError::Outside(inside));
    }
    let mut bytes = Vec::new();
    open(&path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    let is_whole = bytes.len() as u64 <= most;
    if !is_whole {
        bytes.pop();
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let (valid, cut_inside) = (error.utf8_error().valid_up_to(), error.utf8_error().error_len().is_none());
            let mut bytes = error.into_bytes();
            if is_whole || !cut_inside {
                let line = bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
                return Err(FileReadError::NotText { line });
            }
            bytes.truncate(valid);
            String::from_utf8(bytes).map_err(|_| FileReadError::NotText { line: 1 })?
        }
    };
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    Ok(FileHead { text, is_whole })
}

/// Reads a text file of at most `most` bytes. A link may not lead out of the folder `inside`.
pub fn read(path: &Path, inside: &Path, most: u64) -> Result<String, FileReadError> {
    let start = read_start(path, inside, most)?;
    if start.is_whole { Ok(start.text) } else { Err(FileReadError::TooLarge(most)) }
}

/// Writes a file atomically in place of an existing one, durable across power loss. Only its owner may read it. A link is
/// replaced, not followed.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    written(path, bytes, FileAudience::Owner)?.persist(path)?;
    sync_folder(path)
}

/// Creates a file atomically; returns `false` and leaves an existing file unchanged. Only its owner may read it.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    create_for(path, bytes, FileAudience::Owner)
}

/// Does the same as [`replace`] for a file of a project, which is not private: a new file has the permissions that the umask
/// leaves, and a replaced one keeps its own.
pub fn replace_shared(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = written(path, bytes, FileAudience::Umask)?;
    if let Ok(there) = fs::symlink_metadata(path)
        && there.is_file()
    {
        file.as_file().set_permissions(there.permissions())?;
    }
    file.persist(path)?;
    sync_folder(path)
}

/// Does the same as [`create`] for a file of a project, which is not private: it has the permissions that the umask leaves.
pub fn create_shared(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    create_for(path, bytes, FileAudience::Umask)
}

/// The users to whom a new file is accessible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileAudience {
    /// Its owner alone.
    Owner,
    /// Those whom the umask leaves.
    Umask,
}

fn create_for(path: &Path, bytes: &[u8], audience: FileAudience) -> io::Result<bool> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(false);
    }
    match written(path, bytes, audience)?.persist_noclobber(path) {
        Ok(_) => sync_folder(path).map(|()| true),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    }
}

/// Writes a synced temporary file next to `path`.
fn written(path: &Path, bytes: &[u8], audience: FileAudience) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    if audience == FileAudience::Umask {
        // The system takes from these what the umask says.
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    }
    #[cfg(not(unix))]
    let _ = audience;
    let mut file = builder.tempfile_in(folder_of(path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Returns the mode of a new file that is not private: what the umask of this process leaves of 0666. Where the system does not
/// say what the umask is, the file is for its owner alone.
pub fn new_file_mode() -> u32 {
    static MODE: OnceLock<u32> = OnceLock::new();
    *MODE.get_or_init(|| umask().map_or(0o600, |umask| 0o666 & !umask))
}

/// Returns the umask of this process. To set it, as `umask(2)` does, would change it for other threads meanwhile.
#[cfg(target_os = "linux")]
fn umask() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let digits = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(digits.trim(), 8).ok()
}

/// Returns the umask of this process, as the permissions of a new file show it.
#[cfg(all(unix, not(target_os = "linux")))]
fn umask() -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mut builder = tempfile::Builder::new();
    let file = builder.permissions(fs::Permissions::from_mode(0o666)).tempfile().ok()?;
    Some(!file.as_file().metadata().ok()?.permissions().mode() & 0o666)
}

#[cfg(not(unix))]
fn umask() -> Option<u32> {
    None
}

/// Returns the folder that contains `path`; the current one for a name alone.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Syncs the folder that contains `path`, so that its name survives power loss.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::File::open(folder_of(path))?.sync_all()?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Creates a folder of mode 0750 in an existing one; returns `false` if the folder exists. A link is an error.
pub fn create_folder(path: &Path) -> io::Result<bool> {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "only unix has modes"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o750);
    create_folder_with(path, &builder)
}

fn create_folder_with(path: &Path, builder: &fs::DirBuilder) -> io::Result<bool> {
    match builder.create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::symlink_metadata(path)?.file_type() {
            kind if kind.is_dir() => Ok(false),
            kind if kind.is_symlink() => Err(io::Error::other("the path is a link")),
            _ => Err(io::Error::other("the path is a file")),
        },
        Err(error) => Err(error),
    }
}

/// Creates a folder of a project, which is not private, in an existing one: it has the permissions that the umask leaves.
/// Returns `false` if the folder exists. A link is an error.
pub fn create_shared_folder(path: &Path) -> io::Result<bool> {
    create_folder_with(path, &fs::DirBuilder::new())
}

/// Creates a folder and its missing parents for their owner alone: mode 0700.
pub fn create_private_folders(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Waits for an exclusive lock on this folder and holds it until the returned file is dropped. The lock is advisory: it only
/// excludes callers of this function.
pub fn lock_folder(path: &Path) -> io::Result<Option<fs::File>> {
    #[cfg(unix)]
    {
        let folder = fs::File::open(path)?;
        folder.lock()?;
        Ok(Some(folder))
    }
    // Other systems cannot open a folder.
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(None)
    }
}

/// A file that is locked as long as this value lives. The lock is advisory: it only excludes those who lock the file as well.
#[derive(Debug)]
pub struct LockedFile(fs::File);

impl LockedFile {
    /// Locks a file; `None` if it is locked already, by this process or another.
    ///
    /// # Errors
    ///
    /// [`io::Error`] if the system refuses it, also where a file system has no locks.
    pub fn try_new(file: fs::File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Deref for LockedFile {
    type Target = fs::File;

    fn deref(&self) -> &fs::File {
        &self.0
    }
}

impl DerefMut for LockedFile {
    fn deref_mut(&mut self) -> &mut fs::File {
        &mut self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // To close the file is not enough: a child that is just being started has a copy of it until its program is loaded.
        let _ = self.0.unlock();
    }
}

/// Splits a text into the part between a first line `---` and the next such line, and the rest. Returns `None` if the text
/// does not begin with such a line or the second one is missing.
pub fn front_matter(text: &str) -> Option<(&str, &str)> {
    let is_fence = |line: &&str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    let start = lines.next().filter(is_fence)?.len();
    let mut end = start;
    for line in lines {
        if is_fence(&line) {
            return Some((&text[start..end], &text[end + line.len()..]));
        }
        end += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_shown_without_dots_that_say_nothing() {
        for (path, shown, normal) in [
            ("./.shelly/local", ".shelly/local", ".shelly/local"),
            ("/tmp/x/.", "/tmp/x", "/tmp/x"),
            ("/tmp/x/", "/tmp/x", "/tmp/x"),
            ("a/./b/../c", "a/b/../c", "a/c"),
            ("../x", "../x", "x"),
            (".", ".", ""),
            ("", ".", ""),
            ("/", "/", "/"),
        ] {
            // As text: equal paths may be written differently.
            let text = |path: PathBuf| path.display().to_string();
            assert_eq!(text(without_dots(Path::new(path))), shown, "{path}");
            assert_eq!(text(normalized(Path::new(path))), normal, "{path}");
        }
    }

    #[test]
    fn dates_that_cannot_be_written_are_the_nearest_that_can() {
        let (epoch, second) = (SystemTime::UNIX_EPOCH, std::time::Duration::from_secs(1));
        for (time, date) in [
            (epoch - second, "1970-01-01T00:00:00Z"),
            (epoch, "1970-01-01T00:00:00Z"),
            (epoch + limits::LAST_DATE, "9999-12-31T23:59:59Z"),
            (epoch + limits::LAST_DATE + second, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(humantime::format_rfc3339_seconds(writable_date(time)).to_string(), date);
        }
    }

    #[test]
    fn front_matter_is_between_two_fences() {
        for (text, parts) in [
            ("---\na: b\n---\nbody\n", Some(("a: b\n", "body\n"))),
            ("---\r\na: b\r\n---\r\nbody\r\n", Some(("a: b\r\n", "body\r\n"))),
            ("---\n---", Some(("", ""))),
            ("---\na: b\n", None),
            ("---- \na\n---\n", None),
            ("body\n---\na\n---\n", None),
            ("", None),
        ] {
            assert_eq!(front_matter(text), parts, "{text:?}");
        }
    }

    #[test]
    fn a_file_is_read_up_to_the_bound_and_cut_at_a_character() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let start = |text: &str, is_whole| FileHead { text: text.into(), is_whole };
        fs::write(&path, "\u{feff}aé").unwrap();
        for (most, expected) in [(6, start("aé", true)), (5, start("a", false)), (4, start("a", false))] {
            assert_eq!(read_start(&path, folder.path(), most).unwrap(), expected, "{most}");
        }
        assert_eq!(read(&path, folder.path(), 6).unwrap(), "aé");
        assert!(matches!(read(&path, folder.path(), 5), Err(FileReadError::TooLarge(5))));
        fs::write(&path, b"a\nb\xff\n").unwrap();
        for most in [3, 4, 5] {
            let read = read_start(&path, folder.path(), most);
            assert_eq!(matches!(read, Err(FileReadError::NotText { line: 2 })), most > 3, "{most}: {read:?}");
        }
        let why = read(folder.path(), folder.path(), 5).unwrap_err().to_string();
        assert_eq!(why, "expected a file, found a folder");
    }

    #[test]
    #[cfg(unix)]
    fn a_link_out_of_the_folder_is_not_followed() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("in");
        fs::create_dir(&folder).unwrap();
        fs::write(outer.path().join("secret"), "s").unwrap();
        fs::write(folder.join("own"), "o").unwrap();
        std::os::unix::fs::symlink("../secret", folder.join("out")).unwrap();
        std::os::unix::fs::symlink("own", folder.join("stays")).unwrap();
        assert!(matches!(read(&folder.join("out"), &folder, 9), Err(FileReadError::Outside(_))));
        assert_eq!(read(&folder.join("stays"), &folder, 9).unwrap(), "o");
    }

    #[cfg(unix)]
    #[test]
    fn pipes_sockets_and_devices_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, socket) = (folder.path().join("pipe"), folder.path().join("socket"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink("pipe", folder.path().join("link")).unwrap();
        let link = folder.path().join("link");
        for (path, what) in [(&pipe, "pipe"), (&link, "pipe"), (&socket, "socket"), (&"/dev/zero".into(), "device")] {
            let why = why_unreadable(&open(path).unwrap_err());
            assert_eq!(why, format!("expected a file, found a {what}"), "{}", path.display());
        }
        assert!(matches!(read(&pipe, folder.path(), 5), Err(FileReadError::Io(_))));
        fs::write(folder.path().join("file"), "a").unwrap();
        assert!(open(&folder.path().join("file")).is_ok());
    }

    #[test]
    fn files_are_created_once_and_replaced_atomically() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert!(create(&path, b"1").unwrap());
        assert!(!create(&path, b"2").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"1");
        replace(&path, b"3").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"3");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        assert!(create_folder(&path).is_err(), "a file stands there");
        assert!(create_folder(&folder.path().join("b")).unwrap());
        assert!(!create_folder(&folder.path().join("b")).unwrap());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            // The umask may remove permissions; none are added.
            assert_eq!((mode(&path), mode(&folder.path().join("b")) & !0o750), (0o600, 0));
            std::os::unix::fs::symlink("nowhere", folder.path().join("c")).unwrap();
            assert!(create_folder(&folder.path().join("c")).is_err());
            assert!(!create(&folder.path().join("c"), b"").unwrap());
        }
    }

    #[cfg(unix)]
    #[test]
    fn shared_files_follow_the_umask_and_keep_their_mode() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
        // What any program gets.
        fs::write(folder.path().join("usual"), "").unwrap();
        fs::create_dir(folder.path().join("usual-folder")).unwrap();
        assert!(create_shared(&folder.path().join("new"), b"1").unwrap());
        assert!(create_shared_folder(&folder.path().join("new-folder")).unwrap());
        replace_shared(&folder.path().join("other"), b"1").unwrap();
        assert_eq!((mode("new"), mode("other"), new_file_mode()), (mode("usual"), mode("usual"), mode("usual")));
        assert_eq!(mode("new-folder"), mode("usual-folder"));
        for kept in [0o640, 0o755, 0o600] {
            fs::set_permissions(folder.path().join("new"), fs::Permissions::from_mode(kept)).unwrap();
            replace_shared(&folder.path().join("new"), b"2").unwrap();
            assert_eq!(mode("new"), kept);
        }
        assert_eq!(fs::read(folder.path().join("new")).unwrap(), b"2");
        assert!(!create_shared(&folder.path().join("new"), b"3").unwrap());
    }

    #[test]
    fn lock_ends_although_a_copy_of_the_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let open = || fs::File::create(folder.path().join("a")).unwrap();
        let locked = LockedFile::try_new(open()).unwrap().unwrap();
        assert!(LockedFile::try_new(open()).unwrap().is_none());
        // As a child has it that is being started.
        let _copy = locked.try_clone().unwrap();
        drop(locked);
        assert!(LockedFile::try_new(open()).unwrap().is_some());
    }
}
