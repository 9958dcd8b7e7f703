//! A project in Rust whose cargo is a script, which takes a component that is there already: a build of it takes no time.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{PLUGIN_ROOT, support::Place};

/// The script: it fails if there is a file `broken`, never ends if there is one `endless` (its process is in `.pid`), and otherwise
/// names the component
/// in `component.txt`, or in turn that in `other.txt`.
const CARGO: &str = r#"#!/bin/sh
case "$*" in *--release*) echo optimised >&2;; esac
if [ -f broken ]; then echo 'error: the source is broken' >&2; exit 101; fi
if [ -f endless ]; then echo "pid $$" >&2; echo $$ >.pid; exec sleep 3600; fi
component=component.txt
if [ -f other.txt ]; then
  if [ -f .turn ]; then rm .turn; component=other.txt; else touch .turn; fi
fi
echo "{\"reason\":\"compiler-artifact\",\"filenames\":[\"$(cat $component)\"]}"
"#;

/// The component of a plugin that comes with the host.
pub fn component(id: &str) -> String {
    format!("{PLUGIN_ROOT}/{id}/{}.wasm", id.replace('-', "_"))
}

/// Makes the project `dice` from the manifest and the component of a plugin that comes with the host.
pub fn project_of(place: &Place, id: &str) -> PathBuf {
    let program = |name: &str, text: &str| {
        let path = place.file(&format!("bin/{name}"), text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("cargo", CARGO);
    program("rustc", &format!("#!/bin/sh\necho '{}'\n", place.path().join("sysroot").display()));
    place.file("sysroot/lib/rustlib/wasm32-unknown-unknown/lib/libstd-1.rlib", "");
    let manifest = fs::read(Path::new(PLUGIN_ROOT).join(id).join("plugin.toml")).unwrap();
    place.file("dice/plugin.toml", manifest);
    place.file("dice/component.txt", component(id));
    place.file("dice/Cargo.toml", "");
    place.path().join("dice")
}

/// Returns a command of the program that finds the script.
pub fn command(place: &Place, words: &[&str]) -> Command {
    let mut command = place.command(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", place.path().join("bin").display()));
    command
}
