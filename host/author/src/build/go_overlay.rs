//! A change of Go's runtime that a component needs, as `go build -overlay` takes it.
//!
//! Go's runtime takes it that nobody else makes its memory larger. The adapter between the two versions of WASI does so, for
//! a stack and a state of its own, in the first call of WASI that a program makes; the runtime would later hand the same
//! pages out. With this change it makes one call before it looks how much memory there is, and takes all that is there by
//! then as used.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;
use shelly_core::files;

use crate::author_error::AuthorError;

/// The file of the runtime, below its root.
const FILE: &str = "src/runtime/os_wasm.go";
/// The lines that look how much memory there is.
const COUNTS: &str = "\tinitBloc()\n\tblocMax = uintptr(currentMemory()) * physPageSize";
/// A call of WASI.
const FIRST: &str = "\tvar first [1]byte\n\treadRandom(first[:])\n";
const ALL_IS_USED: &str = "\n\tbloc = blocMax";

/// Writes the overlay into a folder. Returns the file that `-overlay` names.
///
/// # Errors
///
/// [`AuthorError::GoRuntime`] if the runtime has not the lines that are changed.
pub(super) fn write(root: &Path, version: &str, folder: &Path) -> Result<PathBuf, AuthorError> {
    let source = root.join(FILE);
    let text = fs::read_to_string(&source).map_err(AuthorError::file("read", &source))?;
    let unknown = || AuthorError::GoRuntime { version: shelly_core::error::legible(version), path: source.clone() };
    let text = changed(&text).ok_or_else(unknown)?;
    let (runtime, overlay) = (folder.join("os_wasm.go"), folder.join("overlay.json"));
    let list = json!({ "Replace": { source.display().to_string(): runtime.display().to_string() } });
    for (path, text) in [(&runtime, text), (&overlay, list.to_string())] {
        files::replace(path, text.as_bytes()).map_err(AuthorError::file("write", path))?;
    }
    Ok(overlay)
}

/// Returns the changed file; `None` if it is not as expected.
fn changed(text: &str) -> Option<String> {
    let (before, after) = text.split_once(COUNTS)?;
    if after.contains(COUNTS) {
        return None;
    }
    // A comment may follow on the same line.
    let (line, rest) = after.split_once('\n')?;
    Some([before, FIRST, COUNTS, line, ALL_IS_USED, "\n", rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNTIME: &str = "func osinit() {\n\tphysPageSize = 64 * 1024\n\tinitBloc()\n\
                           \tblocMax = uintptr(currentMemory()) * physPageSize // record the initial linear memory size\n\tncpu = 1\n}\n";

    #[test]
    fn runtime_calls_wasi_before_it_counts_its_memory() {
        assert_eq!(
            changed(RUNTIME).unwrap(),
            "func osinit() {\n\tphysPageSize = 64 * 1024\n\tvar first [1]byte\n\treadRandom(first[:])\n\tinitBloc()\n\
             \tblocMax = uintptr(currentMemory()) * physPageSize // record the initial linear memory size\n\tbloc = blocMax\n\
             \tncpu = 1\n}\n"
        );
    }

    #[test]
    fn unknown_runtime_is_refused_with_its_version() {
        let world = tempfile::tempdir().unwrap();
        let runtime = world.path().join(FILE);
        fs::create_dir_all(runtime.parent().unwrap()).unwrap();
        for text in ["func osinit() {}\n".to_owned(), [RUNTIME, RUNTIME].concat()] {
            fs::write(&runtime, text).unwrap();
            let report = write(world.path(), "go1.99", world.path()).unwrap_err().report();
            assert!(report.message.starts_with("the runtime of go1.99 in "), "{report}");
            assert!(report.hint.unwrap().contains("use a Go from 1.24"));
        }
        fs::write(&runtime, RUNTIME).unwrap();
        let overlay = fs::read_to_string(write(world.path(), "go1.24", world.path()).unwrap()).unwrap();
        let overlay: serde_json::Value = serde_json::from_str(&overlay).unwrap();
        let written = overlay["Replace"][runtime.display().to_string()].as_str().unwrap().to_owned();
        assert!(fs::read_to_string(written).unwrap().contains("readRandom(first[:])"));
    }
}
