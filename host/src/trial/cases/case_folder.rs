use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    config::PluginFolderUse,
    error::{ErrorKind, Report, why_unreadable},
    limits,
    plugin::resolved,
    trial::fixture::BytesFixture,
};

/// The path that replaces that of the case's folder in outcomes, because the real one differs each time.
const SHOWN_ROOT: &str = "/case";

/// The temporary folder of a test case, with its files. Dropping this value removes it.
pub(super) struct CaseFolder {
    root: PathBuf,
    _folder: TempDir,
}

impl CaseFolder {
    /// Creates the folder with these files, and the folders that are granted in it. `time` is the modification time of the
    /// files, in milliseconds since 1970.
    pub fn new(files: &BTreeMap<String, BytesFixture>, granted: &[PluginFolderUse], time: u64) -> Result<Self, Report> {
        let failed = |error: io::Error| Report::new(ErrorKind::Run, "cannot write the files of the case").cause(error);
        let folder = tempfile::tempdir().map_err(failed)?;
        let root = resolved(folder.path());
        for granted in granted {
            fs::create_dir_all(root.join(&granted.path)).map_err(failed)?;
        }
        for (path, BytesFixture(bytes)) in files {
            write(&root.join(path), bytes, time).map_err(failed)?;
        }
        Ok(Self { root, _folder: folder })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns the content of a file in the form of a fixture; null if there is no such file.
    pub fn content(&self, path: &str) -> Value {
        let path = self.root.join(path);
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Value::Null,
            Ok(found) if found.is_file() && found.len() > limits::TRIAL_INPUT_BYTES as u64 => {
                return format!("({} bytes, too many to be compared)", found.len()).into();
            }
            Ok(found) if !found.is_file() => return "(not a file)".into(),
            _ => {}
        }
        match fs::read(&path) {
            Ok(bytes) => json!(BytesFixture(bytes)),
            Err(error) => format!("(cannot be read: {})", why_unreadable(&error)).into(),
        }
    }

    /// Replaces the real path of the folder in all texts of a value.
    pub fn without_root(&self, value: Value) -> Value {
        match value {
            Value::String(text) => self.text_without_root(&text).into(),
            Value::Array(values) => values.into_iter().map(|value| self.without_root(value)).collect(),
            Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, self.without_root(value))).collect(),
            value => value,
        }
    }

    /// Replaces the real path of the folder in a text.
    pub fn text_without_root(&self, text: &str) -> String {
        text.replace(&*self.root.to_string_lossy(), SHOWN_ROOT)
    }
}

fn write(path: &Path, bytes: &[u8], time: u64) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)?;
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(time)).unwrap_or(UNIX_EPOCH);
    fs::File::options().write(true).open(path)?.set_modified(time)
}

/// Returns `true` if a relative path stays below its folder.
pub(super) fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        && path.components().next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_yaml;

    #[test]
    fn folder_of_a_case_has_its_files_and_granted_folders() {
        let files = BTreeMap::from([("a/b.txt".to_owned(), BytesFixture(b"x".to_vec()))]);
        let granted: PluginFolderUse = parse_yaml("{path: out, mode: write}", "the folder", "f").unwrap();
        let folder = CaseFolder::new(&files, &[granted], 1_000).unwrap();
        assert!(folder.path().join("out").is_dir());
        let content = |path| folder.content(path);
        assert_eq!(
            [content("a/b.txt"), content("none"), content("a")],
            [json!("x"), json!(null), json!("(not a file)")]
        );
        let modified = fs::metadata(folder.path().join("a/b.txt")).unwrap().modified().unwrap();
        assert_eq!(modified, UNIX_EPOCH + Duration::from_secs(1));
        let shown = folder.without_root(json!([{"path": folder.path().join("a").display().to_string()}, 1]));
        assert_eq!(shown, json!([{"path": "/case/a"}, 1]));
    }

    #[test]
    fn file_that_is_too_large_is_not_compared() {
        let folder = CaseFolder::new(&BTreeMap::new(), &[], 0).unwrap();
        let write = |bytes: usize| fs::write(folder.path().join("f"), vec![b'x'; bytes]).unwrap();
        write(limits::TRIAL_INPUT_BYTES);
        assert_eq!(folder.content("f").as_str().map(str::len), Some(limits::TRIAL_INPUT_BYTES));
        write(limits::TRIAL_INPUT_BYTES + 1);
        assert_eq!(folder.content("f"), json!("(4194305 bytes, too many to be compared)"));
    }

    #[test]
    fn path_inside_a_folder_is_relative_without_parents() {
        for (path, expected) in
            [("a/b", true), (".", true), ("./a", true), ("", false), ("/a", false), ("a/../b", false)]
        {
            assert_eq!(is_inside(Path::new(path)), expected, "{path}");
        }
    }
}
