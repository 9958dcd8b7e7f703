//! The messages that cargo writes about artifacts.

use std::path::PathBuf;

use serde::Deserialize;

/// A message of cargo; only those about artifacts have files.
#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// Returns the WebAssembly file that a line names; `None` for all other lines.
pub(crate) fn wasm_artifact(line: &str) -> Option<PathBuf> {
    let message: CargoMessage = serde_json::from_str(line).ok()?;
    let is_wasm = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "wasm");
    message.filenames.into_iter().find(is_wasm).filter(|_| message.reason == "compiler-artifact")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_artifact_of_wasm_is_found() {
        for (line, found) in [
            (
                r#"{"reason":"compiler-artifact","filenames":["/t/release/a.wasm"],"fresh":true}"#,
                Some("/t/release/a.wasm"),
            ),
            (r#"{"reason":"compiler-artifact","filenames":["/t/release/liba.rlib","/t/liba.rmeta"]}"#, None),
            (r#"{"reason":"build-script-executed","out_dir":"/t"}"#, None),
            (r#"{"reason":"build-finished","success":true}"#, None),
            ("   Compiling a v0.1.0", None),
        ] {
            assert_eq!(wasm_artifact(line), found.map(PathBuf::from), "{line}");
        }
    }
}
