//! The commit that a repository has checked out. The build script reads it with this file, which the library has for its tests
//! alone.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A commit, and the files of the repository that change when another one is checked out.
#[derive(Debug, PartialEq, Eq)]
pub struct CheckedOutCommit {
    /// The hexadecimal id.
    pub id: String,
    /// Files that exist.
    pub files: Vec<PathBuf>,
}

/// Returns the commit that the repository in the folder `root` has checked out; `None` if there is no repository in that very
/// folder, or no commit in it. No program is started, so that a build needs no git.
pub fn checked_out_commit(root: &Path) -> Option<CheckedOutCommit> {
    let git = git_folder(&root.join(".git"))?;
    // The branches of a linked worktree are those of the main one.
    let common = fs::read_to_string(git.join("commondir")).map_or_else(|_| git.clone(), |path| git.join(path.trim()));
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    // The log of HEAD grows with each commit, also with the first one that gives a packed branch a file of its own.
    let mut files = vec![git.join("HEAD"), git.join("logs/HEAD")];
    let id = match head.trim().strip_prefix("ref: ") {
        None => head.trim().to_owned(),
        Some(branch) => {
            let (own, packed) = (common.join(branch), common.join("packed-refs"));
            let id = fs::read_to_string(&own).ok().or_else(|| packed_id(&fs::read_to_string(&packed).ok()?, branch));
            files.extend([own, packed]);
            id?.trim().to_owned()
        }
    };
    // A file that is not there would have cargo run the build script at each build.
    files.retain(|path| path.is_file());
    let is_id = [40, 64].contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some(CheckedOutCommit { id, files })
}

/// Returns the folder of a repository from its `.git`, which in a linked worktree is a file that names the folder.
fn git_folder(git: &Path) -> Option<PathBuf> {
    if git.is_dir() {
        return Some(git.to_owned());
    }
    let text = fs::read_to_string(git).ok()?;
    Some(git.parent()?.join(text.trim().strip_prefix("gitdir: ")?))
}

/// Returns the commit of a branch in the text of `packed-refs`.
fn packed_id(text: &str, branch: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_suffix(branch)?.strip_suffix(' ').map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn commit_is_found_however_the_repository_keeps_it() {
        let line = format!("{ID}\n");
        let packed =
            format!("# pack-refs with: peeled\n{} refs/heads/maine\n{ID} refs/heads/main\n", ID.replace('0', "f"));
        let link = ("a/.git", "gitdir: ../b/.git/worktrees/a\n");
        for (files, watched) in [
            (&[(".git/HEAD", &*line)][..], 1),
            (&[(".git/HEAD", "ref: refs/heads/main\n"), (".git/refs/heads/main", &line), (".git/logs/HEAD", "x")], 3),
            (&[(".git/HEAD", "ref: refs/heads/main\n"), (".git/packed-refs", &packed)], 2),
        ] {
            let root = folder(files);
            let found = checked_out_commit(root.path()).unwrap_or_else(|| panic!("{files:?}"));
            assert_eq!((found.id.as_str(), found.files.len()), (ID, watched), "{files:?}");
        }
        let worktree = folder(&[
            link,
            ("b/.git/worktrees/a/HEAD", "ref: refs/heads/main\n"),
            ("b/.git/worktrees/a/commondir", "../..\n"),
            ("b/.git/refs/heads/main", &line),
        ]);
        let found = checked_out_commit(&worktree.path().join("a")).unwrap();
        assert!(found.id == ID && found.files.iter().all(|path| path.is_file()), "{found:?}");
    }

    #[test]
    fn folder_without_a_commit_has_none() {
        for files in [
            &[("Cargo.toml", "")][..],
            &[(".git/HEAD", "ref: refs/heads/main\n")],
            &[(".git/HEAD", "no commit\n")],
            &[(".git", "not a link\n")],
        ] {
            assert_eq!(checked_out_commit(folder(files).path()), None, "{files:?}");
        }
        // A repository around the folder, such as that of a home folder, is not that of the sources.
        let around = folder(&[(".git/HEAD", ID), ("registry/src/x/Cargo.toml", "")]);
        assert_eq!(checked_out_commit(&around.path().join("registry/src/x")), None);
    }
}
