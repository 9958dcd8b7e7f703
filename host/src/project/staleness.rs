use std::{
    fs,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::ProjectLayout;
use crate::{files, limits};

/// The result of comparing a project's description with its git history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Staleness {
    /// The description is up to date, as far as can be determined.
    Fresh,
    /// The description is out of date.
    Stale {
        /// The reason, for a person.
        reason: String,
    },
}

/// Compares the time of `context.md` with the last move of the git repository's HEAD: a commit, a checkout, a merge. A
/// missing `context.md` is stale; without a readable repository, an existing one is fresh.
pub fn staleness(layout: &ProjectLayout) -> Staleness {
    let stale = |reason: &str| Staleness::Stale { reason: reason.into() };
    let Ok(written) = fs::metadata(layout.context()).and_then(|metadata| metadata.modified()) else {
        return stale(".shelly/context.md is missing");
    };
    match last_move(layout.root()) {
        Some(moved) if written < moved => stale("the git repository has changed since .shelly/context.md was written"),
        _ => Staleness::Fresh,
    }
}

/// Returns the time of the last move of the HEAD of the repository that contains the folder. No process is started: git
/// keeps a log.
fn last_move(root: &Path) -> Option<SystemTime> {
    let git = git_folder(root)?;
    if let Some(time) = last_line(&git.join("logs/HEAD")).and_then(|line| time_of(&line)) {
        return Some(time);
    }
    // Without a log, the reference that HEAD names was written at that time.
    let modified = |path: PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let head = small(&git.join("HEAD"))?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return modified(git.join("HEAD")) };
    if !name.starts_with("refs/") || name.split('/').any(|part| part == "..") {
        return None;
    }
    // A linked worktree shares its references with the main one.
    let common = small(&git.join("commondir")).map_or_else(|| git.clone(), |path| git.join(path.trim()));
    modified(common.join(name)).or_else(|| modified(common.join("packed-refs")))
}

/// Returns the `.git` folder of this folder or of the nearest parent that has one. In a linked worktree `.git` is a file
/// that names the folder.
fn git_folder(root: &Path) -> Option<PathBuf> {
    // An empty path stands for the current folder.
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { root }.canonicalize().ok()?;
    let (parent, git) = root.ancestors().map(|parent| (parent, parent.join(".git"))).find(|(_, git)| git.exists())?;
    if git.is_dir() {
        return Some(git);
    }
    let named = small(&git)?;
    Some(parent.join(named.trim().strip_prefix("gitdir:")?.trim()))
}

fn small(path: &Path) -> Option<String> {
    files::read(path, path.parent()?, limits::GIT_FILE_BYTES).ok()
}

/// Returns the last non-empty line; `None` if it is longer than the part that is read.
fn last_line(path: &Path) -> Option<String> {
    let mut file = files::open(path).ok()?;
    let length = file.seek(SeekFrom::End(0)).ok()?;
    let start = length.saturating_sub(limits::GIT_FILE_BYTES);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut end = Vec::new();
    file.take(limits::GIT_FILE_BYTES).read_to_end(&mut end).ok()?;
    // Names in the log may have any encoding.
    let end = String::from_utf8_lossy(&end);
    let end = end.trim_end();
    match end.rsplit_once('\n') {
        Some((_, line)) => Some(line.to_owned()),
        None if start == 0 => Some(end.to_owned()),
        None => None,
    }
}

/// Parses the time in a line of git's log: `<old> <new> <name> <address> <seconds> <zone>` and, after a tab, the action.
fn time_of(line: &str) -> Option<SystemTime> {
    let who_and_when = line.split('\t').next()?;
    let seconds = who_and_when.trim_end().rsplit(' ').nth(1)?.parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: impl AsRef<[u8]>) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn set_time(path: PathBuf, seconds: u64) {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    /// Returns a project whose context was written at second 1,000.
    fn project() -> (tempfile::TempDir, ProjectLayout) {
        let root = tempfile::tempdir().unwrap();
        let layout = ProjectLayout::new(root.path().join("project"));
        write(layout.context(), "c");
        set_time(layout.context(), 1_000);
        (root, layout)
    }

    fn is_stale(layout: &ProjectLayout) -> bool {
        staleness(layout) != Staleness::Fresh
    }

    fn log(seconds: u64) -> String {
        format!("0 1 A B <a@b> 5 +0000\tclone: a 9 9\n1 2 A \u{fffd} B <a@b> {seconds} +0200\tcommit: x 1 2\n")
    }

    #[test]
    fn staleness_reads_the_head_log() {
        let (_root, layout) = project();
        assert!(!is_stale(&layout), "no repository");
        for (text, stale) in [
            (log(999), false),
            (log(1_000), false),
            (log(1_001), true),
            (log(1_001) + "\n\n", true),
            (log(u64::MAX), false),
            ("nonsense".into(), false),
            (String::new(), false),
            ("x".repeat(limits::GIT_FILE_BYTES as usize) + &log(1_001), true),
            (log(1_001).trim_end().to_owned() + &"x".repeat(limits::GIT_FILE_BYTES as usize), false),
        ] {
            write(layout.root().join(".git/logs/HEAD"), &text);
            assert_eq!(is_stale(&layout), stale, "{}", &text[..text.len().min(200)]);
        }
        write(layout.root().join(".git/logs/HEAD"), log(999));
        fs::remove_file(layout.context()).unwrap();
        assert_eq!(staleness(&layout), Staleness::Stale { reason: ".shelly/context.md is missing".into() });
    }

    #[test]
    fn staleness_finds_parent_and_linked_repositories() {
        let (root, layout) = project();
        write(root.path().join(".git/logs/HEAD"), log(2_000));
        assert!(is_stale(&layout), "above");
        write(layout.root().join(".git"), "gitdir: ../main/.git/worktrees/project\n");
        assert!(!is_stale(&layout), "the nearest counts, and it has no log");
        write(root.path().join("main/.git/worktrees/project/logs/HEAD"), log(2_000));
        assert!(is_stale(&layout), "a further work tree");
    }

    #[test]
    fn staleness_without_a_log_uses_the_head_reference() {
        let (root, layout) = project();
        let git = layout.root().join(".git");
        write(git.join("HEAD"), "ref: refs/heads/main\n");
        assert!(!is_stale(&layout), "no commit yet");
        write(git.join("packed-refs"), "");
        assert!(is_stale(&layout), "packed");
        write(git.join("refs/heads/main"), "1\n");
        set_time(git.join("refs/heads/main"), 900);
        assert!(!is_stale(&layout), "its own file comes first");
        set_time(git.join("refs/heads/main"), 1_100);
        assert!(is_stale(&layout));
        write(git.join("HEAD"), "0123456789\n");
        assert!(is_stale(&layout), "detached: HEAD itself");
        set_time(git.join("HEAD"), 900);
        assert!(!is_stale(&layout));
        write(root.path().join("new"), "");
        write(git.join("HEAD"), "ref: refs/../../../new\n");
        assert!(!is_stale(&layout), "a name that leads out is none");

        fs::remove_dir_all(&git).unwrap();
        write(git, "gitdir: ../main/.git/worktrees/project");
        let worktree = root.path().join("main/.git/worktrees/project");
        write(worktree.join("HEAD"), "ref: refs/heads/topic\n");
        write(worktree.join("commondir"), "../..\n");
        write(root.path().join("main/.git/refs/heads/topic"), "1\n");
        assert!(is_stale(&layout), "refs are with the first work tree");
    }
}
