use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{ProjectError, ProjectPermissions, error::unwritable};
use crate::{error::why_unreadable, files};

/// The paths in a project: its root and the folder `.shelly` in it.
///
/// Everything below `local/` belongs to one person's copy of the project and is ignored by git; the rest is shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectLayout {
    root: PathBuf,
}

impl ProjectLayout {
    /// Creates the layout of the project in this folder. No disk access.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the project's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns `.shelly`.
    pub fn dir(&self) -> PathBuf {
        self.root.join(".shelly")
    }

    /// Returns `.shelly/config.yaml`.
    pub fn config(&self) -> PathBuf {
        self.dir().join("config.yaml")
    }

    /// Returns `.shelly/context.md`, which is part of every agent's prompt, like all `.shelly/*.md`.
    pub fn context(&self) -> PathBuf {
        self.dir().join("context.md")
    }

    /// Returns `.shelly/knowledge`, whose files agents read on demand.
    pub fn knowledge(&self) -> PathBuf {
        self.dir().join("knowledge")
    }

    /// Returns `.shelly/skills`.
    pub fn skills(&self) -> PathBuf {
        self.dir().join("skills")
    }

    /// Returns `.agents/skills`, which other programs read too.
    pub fn shared_skills(&self) -> PathBuf {
        self.root.join(".agents/skills")
    }

    /// Returns `.shelly/commands`, whose files are messages that a person gives by name in a chat.
    pub fn commands(&self) -> PathBuf {
        self.dir().join("commands")
    }

    /// Returns `.shelly/.gitignore`.
    pub fn gitignore(&self) -> PathBuf {
        self.dir().join(".gitignore")
    }

    /// Returns `.shelly/local`.
    pub fn local(&self) -> PathBuf {
        self.dir().join("local")
    }

    /// Returns `.shelly/local/permissions.json`.
    pub fn permissions(&self) -> PathBuf {
        self.local().join("permissions.json")
    }

    /// Returns `.shelly/permissions.json`, the former path of the permissions.
    pub fn legacy_permissions(&self) -> PathBuf {
        self.dir().join("permissions.json")
    }

    /// Returns `.shelly/local/notes`.
    pub fn notes(&self) -> PathBuf {
        self.local().join("notes")
    }

    /// Returns `.shelly/local/reflections`.
    pub fn reflections(&self) -> PathBuf {
        self.local().join("reflections")
    }

    /// Returns `.shelly/local/sessions`.
    pub fn sessions(&self) -> PathBuf {
        self.local().join("sessions")
    }

    /// Returns `.shelly/local/kv`, the folder of the plugins' key-value stores.
    pub fn kv(&self) -> PathBuf {
        self.local().join("kv")
    }

    /// Returns `.shelly/local/pricing.yaml`.
    pub fn pricing(&self) -> PathBuf {
        self.local().join("pricing.yaml")
    }

    /// Returns `.shelly/local/triggers.json`, the last times of triggers.
    pub fn triggers(&self) -> PathBuf {
        self.local().join("triggers.json")
    }

    /// Returns `.shelly/local/deliveries`, the folder with the webhooks that triggers have taken.
    pub fn deliveries(&self) -> PathBuf {
        self.local().join("deliveries")
    }

    /// Creates the local folder, if it is missing, and makes git ignore it. Moves permissions from their former path.
    ///
    /// # Errors
    ///
    /// The errors of [`ProjectLayout::bootstrap`].
    pub fn make_local(&self) -> Result<(), ProjectError> {
        self.check_root()?;
        for folder in [self.dir(), self.local()] {
            self.create_folder(&folder).map_err(|error| unwritable(folder, &error))?;
        }
        let ignore = self.local().join(".gitignore");
        files::create(&ignore, b"*\n").map(drop).map_err(|error| unwritable(ignore, &error))?;
        ProjectPermissions::migrate(self).map(drop)
    }

    /// Creates the folder of the plugins' key-value stores, if it is missing.
    ///
    /// # Errors
    ///
    /// The errors of [`ProjectLayout::bootstrap`].
    pub fn make_kv(&self) -> Result<(), ProjectError> {
        if fs::symlink_metadata(self.kv()).is_ok_and(|there| there.is_dir()) {
            return Ok(());
        }
        self.make_local()?;
        let made = files::create_folder(&self.kv());
        // The stores are durable only if their folders are.
        let kept =
            made.and_then(|_| [self.dir(), self.local(), self.kv()].iter().try_for_each(|dir| files::sync_folder(dir)));
        kept.map_err(|error| unwritable(self.kv(), &error))
    }

    /// Creates the folder of the webhooks that triggers have taken, if it is missing.
    ///
    /// # Errors
    ///
    /// The errors of [`ProjectLayout::bootstrap`].
    pub fn make_deliveries(&self) -> Result<(), ProjectError> {
        self.make_local()?;
        files::create_folder(&self.deliveries()).map(drop).map_err(|error| unwritable(self.deliveries(), &error))
    }

    /// Creates the missing folders (below `local` with mode 0750), `.gitignore` and the permissions file (mode 0600); moves
    /// permissions from their former path. Existing files stay unchanged. Returns the created paths, in order.
    ///
    /// # Errors
    ///
    /// [`ProjectError`] if the project's own folder is missing, a file cannot be created, or something else, such as a link,
    /// stands in its place.
    pub fn bootstrap(&self) -> Result<Vec<PathBuf>, ProjectError> {
        self.check_root()?;
        let folders = [
            self.dir(),
            self.knowledge(),
            self.skills(),
            self.local(),
            self.notes(),
            self.reflections(),
            self.sessions(),
        ];
        let mut made = Vec::new();
        let mut note = |path: PathBuf, is_new: io::Result<bool>| match is_new {
            Ok(true) => {
                made.push(path);
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(error) => Err(unwritable(path, &error)),
        };
        for folder in folders {
            let is_new = self.create_folder(&folder);
            note(folder, is_new)?;
        }
        note(self.gitignore(), files::create_shared(&self.gitignore(), b"local/\n"))?;
        if ProjectPermissions::migrate(self)? {
            note(self.permissions(), Ok(true))?;
        } else {
            let nothing = ProjectPermissions::default().to_json();
            note(self.permissions(), files::create(&self.permissions(), nothing.as_bytes()))?;
        }
        Ok(made)
    }
}

impl ProjectLayout {
    /// Returns `true` if `.shelly` contains anything besides session records and plugin stores.
    pub fn holds_more_than_sessions(&self) -> bool {
        let others = |folder: &Path, own: &[&str]| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name()).any(|name| !own.iter().any(|own| name == *own))
        };
        others(&self.dir(), &["local"])
            || others(
                &self.local(),
                &["sessions", "kv", "changes", "deliveries", "permissions.json", "triggers.json", ".gitignore"],
            )
    }

    /// Creates one of the folders. What is below `local` belongs to this copy of the project, and is private.
    fn create_folder(&self, folder: &Path) -> io::Result<bool> {
        match folder.starts_with(self.local()) {
            true => files::create_folder(folder),
            false => files::create_shared_folder(folder),
        }
    }

    fn check_root(&self) -> Result<(), ProjectError> {
        let no_root = |reason: String| ProjectError::NoRoot { root: self.root.clone(), reason };
        // An empty path stands for the current folder.
        let root = if self.root.as_os_str().is_empty() { Path::new(".") } else { &self.root };
        match fs::metadata(root) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(no_root("a file, not a folder".into())),
            Err(error) => Err(no_root(why_unreadable(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_creates_only_missing_files() {
        let root = tempfile::tempdir().unwrap();
        let layout = ProjectLayout::new(root.path());
        let made = layout.bootstrap().unwrap();
        let below = |path: &PathBuf| path.strip_prefix(root.path()).unwrap().display().to_string();
        assert_eq!(
            made.iter().map(below).collect::<Vec<_>>(),
            [
                ".shelly",
                ".shelly/knowledge",
                ".shelly/skills",
                ".shelly/local",
                ".shelly/local/notes",
                ".shelly/local/reflections",
                ".shelly/local/sessions",
                ".shelly/.gitignore",
                ".shelly/local/permissions.json",
            ]
        );
        assert!(made.iter().all(|path| path.exists()));
        assert_eq!(layout.bootstrap().unwrap(), [] as [PathBuf; 0], "again makes nothing");

        fs::write(layout.gitignore(), "mine\n").unwrap();
        fs::remove_dir(layout.notes()).unwrap();
        assert_eq!(layout.bootstrap().unwrap(), [layout.notes()]);
        assert_eq!(fs::read_to_string(layout.gitignore()).unwrap(), "mine\n");
    }

    #[test]
    fn missing_project_folder_is_not_created() {
        let root = tempfile::tempdir().unwrap();
        let layout = ProjectLayout::new(root.path().join("none"));
        assert!(matches!(layout.bootstrap(), Err(ProjectError::NoRoot { .. })));
        assert!(!layout.root().exists());
        fs::write(root.path().join(".shelly"), "a file").unwrap();
        let report = ProjectLayout::new(root.path()).bootstrap().unwrap_err().report();
        assert!(report.to_string().ends_with(": the path is a file"), "{report}");
    }

    #[test]
    #[cfg(unix)]
    fn local_project_files_are_private_and_links_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let layout = ProjectLayout::new(root.path());
        fs::create_dir(layout.dir()).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), layout.local()).unwrap();
        assert!(matches!(layout.bootstrap(), Err(ProjectError::Unwritable { path, .. }) if path == layout.local()));
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        fs::remove_file(layout.local()).unwrap();
        layout.bootstrap().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), layout.kv()).unwrap();
        assert!(matches!(layout.make_kv(), Err(ProjectError::Unwritable { path, .. }) if path == layout.kv()));
        fs::remove_file(layout.kv()).unwrap();
        layout.make_kv().unwrap();
        layout.make_kv().unwrap();
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(layout.permissions()), 0o600);
        assert_eq!(mode(layout.local()) & !0o750, 0);
        // The rest is for everybody who works on the project.
        let usual = (root.path().join("file"), root.path().join("folder"));
        fs::write(&usual.0, "").unwrap();
        fs::create_dir(&usual.1).unwrap();
        assert_eq!((mode(layout.gitignore()), mode(layout.skills())), (mode(usual.0), mode(usual.1)));
    }
}
