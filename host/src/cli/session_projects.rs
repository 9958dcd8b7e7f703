//! The projects in which a person has recorded sessions. Sessions lie in their projects, so that nothing else tells where others
//! are.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{render::name, trust, user_config_path::home};
use crate::{app, config::is_of_this_person, files, limits, project::ProjectLayout, session::SessionStore};

/// The folders of the projects with sessions, in a file among the person's own data.
#[derive(Debug)]
pub struct SessionProjects {
    /// `None`: nothing is stored.
    path: Option<PathBuf>,
}

/// The stored file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SessionProjectList {
    /// The absolute paths of the projects without links; the one used last is last.
    projects: Vec<String>,
}

impl SessionProjects {
    /// Returns those of the person who runs this process.
    pub fn of_person() -> Self {
        Self { path: trust::kept("projects.json") }
    }

    /// Makes a project the one used last. Errors are ignored, since a run does not need the list: the project is then missing
    /// in it.
    pub fn add(&self, root: &Path) {
        let Some(root) = real(root) else { return };
        let Some(root) = root.to_str() else { return };
        // Most runs are in the project of the run before, and need no lock.
        if self.path.as_deref().is_some_and(|path| read(path).projects.last().is_some_and(|last| last == root)) {
            return;
        }
        let _ = self.change(|projects| {
            projects.retain(|known| known != root);
            projects.push(root.to_owned());
        });
    }

    /// Returns the projects, the one used last first. Those whose folders are gone are removed from the list.
    pub fn list(&self) -> Vec<PathBuf> {
        let Some(path) = &self.path else { return Vec::new() };
        let mut projects = read(path).projects;
        if projects.iter().any(|project| is_gone(project)) {
            let _ = self.change(|projects| projects.retain(|project| !is_gone(project)));
            projects.retain(|project| !is_gone(project));
        }
        projects.into_iter().rev().map(PathBuf::from).collect()
    }

    /// Returns the project other than that of `here` that has the session `given`: its name, or the beginning of its name.
    pub fn with_session(&self, given: &str, here: &SessionStore) -> Option<PathBuf> {
        let here = real(here.folder());
        let has_it = |project: &PathBuf| {
            let store = app::sessions(project, trust::own_key());
            !is_foreign(project) && real(store.folder()) != here && store.resolve(given).is_ok()
        };
        self.list().into_iter().find(has_it)
    }

    /// Changes the list under a lock, so that two programs that do so at once do not lose each other's changes.
    fn change(&self, change: impl FnOnce(&mut Vec<String>)) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        files::create_private_folders(files::folder_of(path))?;
        let _lock = files::lock_folder(files::folder_of(path))?;
        let mut list = read(path);
        change(&mut list.projects);
        let over = list.projects.len().saturating_sub(limits::SESSION_PROJECTS);
        list.projects.drain(..over);
        files::replace(path, serde_json::json!(list).to_string().as_bytes())
    }
}

/// Reads the file; an empty list if there is none, or if it cannot be used.
fn read(path: &Path) -> SessionProjectList {
    let text = files::read(path, files::folder_of(path), limits::SESSION_PROJECTS_BYTES).ok();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Returns a path without links; an empty one stands for the current folder.
fn real(path: &Path) -> Option<PathBuf> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    path.canonicalize().ok()
}

/// Returns `true` if there is certainly no such folder: one that cannot be looked at stays in the list.
fn is_gone(project: &str) -> bool {
    let about = fs::symlink_metadata(project);
    about.is_err_and(|error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

/// Returns `true` if the folder of a project, or that of its sessions, is not this person's alone. Systems that do not say whose a
/// folder is have none.
pub fn is_foreign(project: &Path) -> bool {
    let sessions = ProjectLayout::new(project).sessions();
    let is_others = |path: &Path| fs::symlink_metadata(path).is_ok() && !is_of_this_person(path);
    cfg!(unix) && [project, sessions.as_path()].into_iter().any(is_others)
}

/// Formats the path of a project on one line, with `~` for the home folder of the person.
pub fn project_in_words(project: &Path) -> String {
    below_home(project, home().and_then(|home| home.canonicalize().ok()).as_deref())
}

fn below_home(project: &Path, home: Option<&Path>) -> String {
    // A home folder `/` is no place of a person.
    let below = home.filter(|home| home.parent().is_some()).and_then(|home| project.strip_prefix(home).ok());
    match below {
        Some(below) if below.as_os_str().is_empty() => "~".into(),
        Some(below) => name(&Path::new("~").join(below).display().to_string()),
        None => name(&project.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn projects() -> (tempfile::TempDir, PathBuf, SessionProjects) {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("state/shelly-host/projects.json");
        (outer, path.clone(), SessionProjects { path: Some(path) })
    }

    fn folder(outer: &tempfile::TempDir, name: &str) -> PathBuf {
        let folder = outer.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn project_used_last_is_first_and_gone_ones_are_removed() {
        let (outer, path, projects) = projects();
        let [one, two] = ["one", "two"].map(|name| folder(&outer, name));
        assert!(projects.list().is_empty() && !path.exists(), "to look makes nothing");
        for root in [&one, &two, &one.join("../one"), &outer.path().join("none")] {
            projects.add(root);
        }
        assert_eq!(projects.list(), [one.clone(), two.clone()]);
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        projects.add(&one);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written, "nothing has changed");
        fs::remove_dir(&one).unwrap();
        assert_eq!(projects.list(), std::slice::from_ref(&two));
        assert!(!fs::read_to_string(&path).unwrap().contains("one"), "the list is shorter from then on");
        fs::write(&path, "no list").unwrap();
        assert!(projects.list().is_empty());
        projects.add(&two);
        assert_eq!(projects.list(), std::slice::from_ref(&two), "a damaged list is begun anew");
        let nowhere = SessionProjects { path: None };
        nowhere.add(&two);
        assert!(nowhere.list().is_empty());
    }

    #[test]
    fn list_of_projects_is_bounded() {
        let (outer, path, projects) = projects();
        for at in 0..=limits::SESSION_PROJECTS {
            projects.add(&folder(&outer, &at.to_string()));
        }
        let listed = projects.list();
        assert_eq!(listed.len(), limits::SESSION_PROJECTS);
        assert!(listed.last().unwrap().ends_with("1"), "the oldest has gone");
        let text = fs::read_to_string(&path).unwrap();
        let padded = |more: u64| {
            let size = usize::try_from(limits::SESSION_PROJECTS_BYTES + more).unwrap();
            fs::write(&path, format!("{text}{}", " ".repeat(size - text.len()))).unwrap();
            projects.list().len()
        };
        assert_eq!((padded(0), padded(1)), (limits::SESSION_PROJECTS, 0), "a larger file is not read");
    }

    #[test]
    fn concurrent_additions_are_all_kept() {
        let (outer, _, projects) = projects();
        std::thread::scope(|scope| {
            for at in 0..16 {
                let (projects, root) = (&projects, folder(&outer, &at.to_string()));
                scope.spawn(move || projects.add(&root));
            }
        });
        assert_eq!(projects.list().len(), 16);
    }

    #[test]
    fn path_is_shown_below_the_home_folder() {
        let home = Path::new("/home/me");
        for (project, home, shown) in [
            ("/home/me/work/a", Some(home), "~/work/a"),
            ("/home/me", Some(home), "~"),
            ("/home/mel", Some(home), "/home/mel"),
            ("/srv/a\x1b[2J", Some(home), "/srv/a\\u{1b}[2J"),
            ("/srv/a", Some(Path::new("/")), "/srv/a"),
            ("/srv/a", None, "/srv/a"),
        ] {
            assert_eq!(below_home(Path::new(project), home), shown);
        }
    }

    #[cfg(unix)]
    #[test]
    fn folder_that_others_can_change_is_foreign() {
        use std::os::unix::fs::PermissionsExt;
        let (outer, ..) = projects();
        let project = folder(&outer, "project");
        let sessions = folder(&outer, "project/.shelly/local/sessions");
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(&project, 0o755);
        assert!(!is_foreign(&project) && !is_foreign(&outer.path().join("none")));
        for path in [&project, &sessions] {
            mode(path, 0o777);
            assert!(is_foreign(&project), "{}", path.display());
            mode(path, 0o755);
        }
    }
}
