//! The output of a build script: lines for cargo, and source for the tests.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use crate::build::{Builder, Built, GuestFolder};
use crate::error::BuildError;

/// Generates Rust source for the tests to include. For each folder, here one named `guest`:
///
/// - `pub const GUEST_ROOT: &str`, the folder that its plugin folders are in;
/// - `pub mod guest` with a `pub const <ID>: &str` for each guest, the path of its component;
/// - `foreach_guest!(m)`, which expands to `m!(id);` for each guest. With it, a guest without a test does not compile:
///
/// ```text
/// macro_rules! assert_test_exists { ($name:ident) => { #[expect(unused_imports)] use self::$name as _; } }
/// foreach_guest!(assert_test_exists);
/// ```
///
/// Dashes of an id become underscores; constants are in upper case. All paths are absolute.
///
/// # Errors
/// If a path is not Unicode, because it could not be written as Rust.
pub fn generate(builder: &Builder, folders: &[GuestFolder], built: &[Built]) -> Result<String, BuildError> {
    let mut source = String::from("// Written by shelly-guest-builder.\n");
    for folder in folders {
        let name = &folder.name;
        let guests = || built.iter().filter(|guest| guest.folder == *name);
        let mut constants = String::new();
        let mut calls = String::new();
        for guest in guests() {
            let ident = guest.id.replace('-', "_");
            let (upper, path) = (ident.to_uppercase(), literal(&guest.component)?);
            constants += &format!("    /// The component of `{}`.\n    pub const {upper}: &str = {path};\n", guest.id);
            calls += &format!("        $m!({ident});\n");
        }
        let root = literal(&builder.root().join(&folder.output))?;
        source += &format!(
            "\n\
             /// The plugin folders of every {name}.\n\
             #[allow(dead_code, reason = \"not every test wants every guest\")]\n\
             pub const {upper}_ROOT: &str = {root};\n\
             \n\
             /// The component of every {name}.\n\
             #[allow(dead_code, reason = \"not every test wants every guest\")]\n\
             pub mod {name} {{\n{constants}}}\n\
             \n\
             /// Calls a macro with the name of every {name}.\n\
             #[allow(unused_macros, reason = \"not every test wants it\")]\n\
             macro_rules! foreach_{name} {{\n    ($m:ident) => {{\n{calls}    }};\n}}\n",
            upper = name.to_uppercase(),
        );
    }
    Ok(source)
}

/// Returns the lines that a build script prints so that cargo runs it again when a guest or one of its inputs changes, or
/// when a guest is added or removed, and at no other time.
pub fn rerun_lines(builder: &Builder, folders: &[GuestFolder], built: &[Built]) -> String {
    // cargo watches everything below a folder, and so notices new guests.
    let mut paths: BTreeSet<_> = folders.iter().map(|folder| builder.root().join(&folder.source)).collect();
    paths.extend(built.iter().flat_map(|guest| &guest.inputs).cloned());
    let mut lines = String::from("cargo::rerun-if-env-changed=SHELLY_WASM_ROUTE\n");
    for path in paths {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "cargo::rerun-if-changed={}", path.display());
    }
    lines
}

/// Returns the lines that a build script prints so that cargo runs it again at the next build, when there may be a toolchain.
/// cargo does not notice `rustup target add`, but a path that does not exist counts as changed. `out` is the folder of the
/// script's output.
pub fn rerun_always_lines(out: &Path) -> String {
    let missing = out.join("guests-without-a-toolchain");
    format!(
        "cargo::rerun-if-env-changed=SHELLY_WASM_ROUTE\ncargo::rerun-if-env-changed=PATH\ncargo::rerun-if-changed={}\n",
        missing.display()
    )
}

fn literal(path: &Path) -> Result<String, BuildError> {
    match path.to_str() {
        Some(text) => Ok(format!("{text:?}")),
        None => Err(BuildError::Guest {
            folder: path.to_owned(),
            cause: "the path is not Unicode".to_owned(),
            hint: "move the workspace to a folder with a plain name".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use std::path::PathBuf;
    use std::process::Command;

    fn built(folder: &str, id: &str) -> Built {
        Built {
            folder: folder.to_owned(),
            id: id.to_owned(),
            plugin: PathBuf::from("/w").join(id),
            component: PathBuf::from(format!("/w/\"{id}\".wasm")),
            inputs: vec!["/w/Cargo.lock".into(), format!("/w/{id}/src/lib.rs").into()],
        }
    }

    fn example(dir: &TempDir) -> (Builder, [GuestFolder; 2], Vec<Built>) {
        let folders =
            [GuestFolder::new("plugin", "plugins", "out"), GuestFolder::new("guest", "tests/guests", "test-out")];
        let built = vec![built("plugin", "count-text"), built("plugin", "read-files")];
        (Builder::new(dir.path()).expect("a workspace"), folders, built)
    }

    #[test]
    fn generated_code_has_constants_and_macros_for_every_folder() {
        let dir = TempDir::new();
        let (builder, folders, built) = example(&dir);
        let source = generate(&builder, &folders, &built).expect("source");
        for part in [
            "pub mod plugin {\n    /// The component of `count-text`.\n    pub const COUNT_TEXT: &str = \"/w/\\\"count-text\\\".wasm\";\n    ///",
            "macro_rules! foreach_plugin {\n    ($m:ident) => {\n        $m!(count_text);\n        $m!(read_files);\n    };\n}",
            "pub mod guest {\n}",
            "macro_rules! foreach_guest {\n    ($m:ident) => {\n    };\n}",
            "pub const GUEST_ROOT: &str = \"",
        ] {
            assert!(source.contains(part), "{part}\nis not in\n{source}");
        }
    }

    #[test]
    fn a_guest_without_a_test_does_not_compile() {
        let dir = TempDir::new();
        let (builder, folders, built) = example(&dir);
        let source = generate(&builder, &folders, &built).expect("source");
        let tests = "\nmacro_rules! assert_test_exists { ($name:ident) => { #[expect(unused_imports)] use self::$name as _; } }\n\
                     foreach_plugin!(assert_test_exists);\nforeach_guest!(assert_test_exists);\n\
                     pub fn count_text() {}\npub const PATH: &str = plugin::READ_FILES;\n";
        let compile = |tests: &str| {
            let file = dir.write("tests.rs", &format!("#![deny(warnings)]\n{source}{tests}"));
            let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
            rustc.args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--out-dir"]);
            let output = rustc.arg(dir.path()).arg(file).output().expect("rustc runs");
            (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (ok, messages) = compile(&format!("{tests}pub fn read_files() {{}}\n"));
        assert!(ok, "{messages}");
        let (ok, messages) = compile(tests);
        assert!(!ok && messages.contains("read_files"), "{messages}");
    }

    #[test]
    fn build_script_watches_each_input_once_and_new_guests() {
        let dir = TempDir::new();
        let (builder, folders, built) = example(&dir);
        let root = builder.root().display().to_string();
        let want = format!(
            "cargo::rerun-if-env-changed=SHELLY_WASM_ROUTE\n\
             cargo::rerun-if-changed={root}/plugins\ncargo::rerun-if-changed={root}/tests/guests\n\
             cargo::rerun-if-changed=/w/Cargo.lock\ncargo::rerun-if-changed=/w/count-text/src/lib.rs\n\
             cargo::rerun-if-changed=/w/read-files/src/lib.rs\n"
        );
        let lines = rerun_lines(&builder, &folders, &built);
        let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(sorted(&lines), sorted(&want));
        assert_eq!(lines.lines().count(), 6);
    }

    #[test]
    fn build_without_a_toolchain_runs_its_script_again() {
        let out = TempDir::new();
        let lines = rerun_always_lines(out.path());
        let watched = |key: &str| lines.lines().filter_map(|line| line.strip_prefix(key)).collect::<Vec<_>>();
        assert_eq!(watched("cargo::rerun-if-env-changed="), ["SHELLY_WASM_ROUTE", "PATH"]);
        let paths = watched("cargo::rerun-if-changed=");
        assert!(paths.len() == 1 && Path::new(paths[0]).starts_with(out.path()), "{lines}");
        assert!(!Path::new(paths[0]).exists(), "cargo takes a path that is not there for one that was changed");
    }
}
