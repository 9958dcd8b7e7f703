use std::{fs, io, path::PathBuf};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{ProjectError, ProjectLayout, error::unwritable};
use crate::{
    files::{self, FileReadError},
    limits,
};

/// The permissions that a person has given permanently for a project. Stored in `.shelly/local/permissions.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProjectPermissions {
    /// Folders that may be read and changed, with everything below them.
    #[serde(deserialize_with = "list")]
    pub fs_directories: Vec<PathBuf>,
    /// Programs that may be run, with any arguments.
    #[serde(deserialize_with = "list")]
    pub trusted_commands: Vec<String>,
    /// Domains that may be contacted.
    #[serde(deserialize_with = "list")]
    pub trusted_domains: Vec<String>,
    /// Tools that may be called without a question, as `ORIGIN/NAME`.
    #[serde(deserialize_with = "list")]
    pub trusted_tools: Vec<String>,
    /// Keys of other versions; they are preserved.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Deserializes a list; `null` is an empty one.
fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl ProjectPermissions {
    /// Reads the permissions of a project, from the former path if the present one does not exist; without either file,
    /// none.
    ///
    /// # Errors
    ///
    /// [`ProjectError`] if the file cannot be read, is too large or is malformed.
    pub fn load(layout: &ProjectLayout) -> Result<Self, ProjectError> {
        let path = match layout.permissions() {
            path if fs::symlink_metadata(&path).is_ok() => path,
            _ => layout.legacy_permissions(),
        };
        let text = match files::read(&path, &layout.dir(), limits::PERMISSIONS_BYTES) {
            Ok(text) => text,
            Err(FileReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(ProjectError::Unreadable { path, reason: error.to_string() }),
        };
        Self::parse(&text).map_err(|reason| ProjectError::Damaged { path, reason })
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        // The former format: the folders alone.
        if text.trim_start().starts_with('[') {
            let folders = serde_json::from_str(text).map_err(|error| error.to_string())?;
            return Ok(Self { fs_directories: folders, ..Self::default() });
        }
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Writes the permissions atomically, readable only by their owner. The folder `.shelly/local` must exist.
    ///
    /// # Errors
    ///
    /// [`ProjectError`] if they cannot be written, or exceed the size that can be read again.
    pub fn save(&self, layout: &ProjectLayout) -> Result<(), ProjectError> {
        let (path, json) = (layout.permissions(), self.to_json());
        if json.len() as u64 > limits::PERMISSIONS_BYTES {
            let reason =
                format!("the permissions have {} bytes, at most {} are allowed", json.len(), limits::PERMISSIONS_BYTES);
            return Err(ProjectError::Unwritable { path, reason });
        }
        files::replace(&path, json.as_bytes()).map_err(|error| unwritable(path, &error))
    }

    /// Reads, changes and writes the permissions under a lock, so that concurrent processes do not lose each other's
    /// changes. Writes nothing if `change` changes nothing.
    ///
    /// # Errors
    ///
    /// [`ProjectError`] as from [`ProjectPermissions::load`] and [`ProjectPermissions::save`].
    pub fn change(layout: &ProjectLayout, change: impl FnOnce(&mut Self)) -> Result<(), ProjectError> {
        let local = layout.local();
        let locked = files::create_folder(&local).and_then(|_| files::lock_folder(&local));
        let _lock = locked.map_err(|error| unwritable(local, &error))?;
        Self::migrate_locked(layout)?;
        let before = Self::load(layout)?;
        let mut after = before.clone();
        change(&mut after);
        if after == before { Ok(()) } else { after.save(layout) }
    }

    pub(super) fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("lists of text and JSON values under string keys");
        json + "\n"
    }

    /// Moves the permissions from their former path, unless the present file exists. Returns `true` if it did. The folder
    /// `.shelly/local` must exist.
    pub(super) fn migrate(layout: &ProjectLayout) -> Result<bool, ProjectError> {
        if !Self::is_due(layout) {
            return Ok(false);
        }
        let local = layout.local();
        let _lock = files::lock_folder(&local).map_err(|error| unwritable(local, &error))?;
        Self::migrate_locked(layout)
    }

    fn migrate_locked(layout: &ProjectLayout) -> Result<bool, ProjectError> {
        // Another process may have moved them meanwhile.
        if !Self::is_due(layout) {
            return Ok(false);
        }
        // Rewritten rather than renamed: this sets the mode and the present format, and leaves a malformed file in place.
        Self::load(layout)?.save(layout)?;
        let old = layout.legacy_permissions();
        fs::remove_file(&old).map_err(|error| unwritable(old, &error))?;
        Ok(true)
    }

    /// Returns `true` if there are permissions at the former path and none at the present one.
    fn is_due(layout: &ProjectLayout) -> bool {
        let is_there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        !is_there(&layout.permissions()) && is_there(&layout.legacy_permissions())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> (tempfile::TempDir, ProjectLayout) {
        let root = tempfile::tempdir().unwrap();
        let layout = ProjectLayout::new(root.path());
        fs::create_dir_all(layout.local()).unwrap();
        (root, layout)
    }

    #[test]
    fn every_permissions_format_is_read() {
        let (_root, layout) = project();
        assert_eq!(ProjectPermissions::load(&layout).unwrap(), ProjectPermissions::default());
        let folders = |names: &[&str]| ProjectPermissions {
            fs_directories: names.iter().map(PathBuf::from).collect(),
            ..ProjectPermissions::default()
        };
        for (text, expected) in [
            ("", ProjectPermissions::default()),
            ("{}", ProjectPermissions::default()),
            (r#"["/a", "/b"]"#, folders(&["/a", "/b"])),
            (r#"{"fs_directories": ["/a"], "trusted_commands": null}"#, folders(&["/a"])),
        ] {
            fs::write(layout.permissions(), text).unwrap();
            assert_eq!(ProjectPermissions::load(&layout).unwrap(), expected, "{text}");
        }
        for text in ["{", "[1]", r#"{"trusted_tools": "all"}"#, "null"] {
            fs::write(layout.permissions(), text).unwrap();
            let report = ProjectPermissions::load(&layout).unwrap_err().report();
            assert!(report.message.ends_with("local/permissions.json are damaged"), "{text}: {report}");
            assert!(report.to_string().contains("line 1"), "{text}: {report}");
        }
    }

    #[test]
    fn saved_permissions_keep_unknown_keys() {
        let (_root, layout) = project();
        fs::write(layout.permissions(), r#"{"trusted_commands": ["git"], "later": {"x": [1]}}"#).unwrap();
        let mut permissions = ProjectPermissions::load(&layout).unwrap();
        permissions.trusted_tools.push("fetch".into());
        permissions.save(&layout).unwrap();
        assert_eq!(ProjectPermissions::load(&layout).unwrap(), permissions);
        let text = fs::read_to_string(layout.permissions()).unwrap();
        assert!(text.contains(r#""later""#) && text.contains(r#""fs_directories": []"#), "{text}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(layout.permissions()).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn permissions_size_is_limited() {
        let (_root, layout) = project();
        let mut permissions = ProjectPermissions::default();
        permissions.trusted_tools.push("x".repeat(limits::PERMISSIONS_BYTES as usize));
        assert!(matches!(permissions.save(&layout), Err(ProjectError::Unwritable { .. })));
        fs::write(layout.permissions(), permissions.to_json()).unwrap();
        assert!(matches!(ProjectPermissions::load(&layout), Err(ProjectError::Unreadable { .. })));
    }

    #[test]
    fn concurrent_permission_changes_keep_all_writes() {
        let (_root, layout) = project();
        fs::remove_dir(layout.local()).unwrap();
        ProjectPermissions::change(&layout, |_| {}).unwrap();
        assert!(!layout.permissions().exists(), "nothing was changed");
        let names: Vec<_> = (0..32).map(|at| format!("p/t{at}")).collect();
        std::thread::scope(|scope| {
            for name in &names {
                let layout = &layout;
                scope.spawn(move || {
                    ProjectPermissions::change(layout, |there| there.trusted_tools.push(name.clone())).unwrap();
                });
            }
        });
        let mut kept = ProjectPermissions::load(&layout).unwrap().trusted_tools;
        kept.sort_by_key(|name| names.iter().position(|known| known == name));
        assert_eq!(kept, names);
        assert_eq!(fs::read_dir(layout.local()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn permissions_migrate_only_without_present_ones() {
        let (_root, layout) = project();
        fs::write(layout.legacy_permissions(), r#"["/old"]"#).unwrap();
        assert_eq!(ProjectPermissions::load(&layout).unwrap().fs_directories, [PathBuf::from("/old")]);
        assert!(!layout.permissions().exists(), "reading writes nothing");
        assert!(layout.bootstrap().unwrap().contains(&layout.permissions()));
        assert!(!layout.legacy_permissions().exists());
        assert_eq!(ProjectPermissions::load(&layout).unwrap().fs_directories, [PathBuf::from("/old")]);

        fs::write(layout.legacy_permissions(), r#"["/older"]"#).unwrap();
        layout.bootstrap().unwrap();
        assert_eq!(ProjectPermissions::load(&layout).unwrap().fs_directories, [PathBuf::from("/old")]);
        assert!(layout.legacy_permissions().exists(), "it is left for a person to look at");

        fs::remove_file(layout.permissions()).unwrap();
        fs::write(layout.legacy_permissions(), "damaged").unwrap();
        assert!(matches!(layout.bootstrap(), Err(ProjectError::Damaged { .. })));
        assert_eq!(fs::read_to_string(layout.legacy_permissions()).unwrap(), "damaged");
    }

    #[test]
    fn legacy_permissions_migrate_on_run_or_answer() {
        let old = r#"["/a"]"#;
        let moves: [fn(&ProjectLayout); 2] = [
            |layout| layout.make_local().unwrap(),
            |layout| {
                ProjectPermissions::change(layout, |permissions| permissions.trusted_commands.push("git".into()))
                    .unwrap()
            },
        ];
        for moves in moves {
            let (_root, layout) = project();
            fs::write(layout.legacy_permissions(), old).unwrap();
            moves(&layout);
            assert!(!layout.legacy_permissions().exists(), "two files would say two things");
            assert_eq!(ProjectPermissions::load(&layout).unwrap().fs_directories, [PathBuf::from("/a")]);
            // A file in its place stays.
            fs::write(layout.legacy_permissions(), r#"["/b"]"#).unwrap();
            moves(&layout);
            assert!(layout.legacy_permissions().exists());
            assert_eq!(ProjectPermissions::load(&layout).unwrap().fs_directories, [PathBuf::from("/a")]);
        }
        // A malformed file is not moved, and is not lost.
        let (_root, layout) = project();
        fs::write(layout.legacy_permissions(), "{").unwrap();
        assert!(matches!(layout.make_local(), Err(ProjectError::Damaged { .. })));
        assert_eq!(fs::read_to_string(layout.legacy_permissions()).unwrap(), "{");
    }
}
