//! The single cargo call that builds all guests.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::depfile;
use crate::discover::Guest;
use crate::error::BuildError;
use crate::process;

const TARGET: &str = "wasm32-unknown-unknown";
/// A profile of the workspace's `Cargo.toml` for components that are small and quick to instantiate.
const PROFILE: &str = "guest";
/// A separate target folder, so that this cargo does not wait for the lock of an outer cargo, and because another rustc
/// may build the guests.
const TARGET_DIR: &str = "target/guests";

/// A smaller stack for guests. A call of a fresh instance costs mostly page faults, and a stack is touched from its end:
/// 64 KiB instead of 1 MiB nearly halves that cost. Rust puts the stack below all data, so that an overflow traps and
/// damages nothing.
const RUSTFLAGS: &str = "-Clink-arg=-zstack-size=65536";

/// The number of lines of cargo's output in an error: about one compiler message.
const LINES: usize = 40;

/// Builds these packages of the workspace; cargo skips the ones that are up to date.
pub(crate) fn build(
    root: &Path,
    packages: &[&str],
    variables: &[(String, OsString)],
    locked: bool,
) -> Result<(), BuildError> {
    // Prefers the outer cargo, if one runs this process, to another one on `PATH`.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["build", "--profile", PROFILE, "--target", TARGET, "--target-dir", TARGET_DIR]);
    if locked {
        command.arg("--locked");
    }
    for package in packages {
        command.args(["-p", package]);
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| belongs_to_outer_cargo(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", RUSTFLAGS);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    process::run(&mut command, LINES).map_err(|cause| BuildError::Cargo { cause })
}

/// Returns the path at which cargo writes a guest's component.
pub(crate) fn artifact(root: &Path, guest: &Guest) -> PathBuf {
    root.join(TARGET_DIR).join(TARGET).join(PROFILE).join(guest.component())
}

/// Returns the files that a component was built from, according to cargo's dep-info file next to it.
pub(crate) fn sources(root: &Path, artifact: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let file = artifact.with_extension("d");
    let text = fs::read_to_string(&file).map_err(BuildError::file("read", &file))?;
    Ok(depfile::inputs(&text).into_iter().map(|path| root.join(path)).collect())
}

/// Returns `true` if a variable was meant for the build of an outer cargo: variables that cargo sets for a build script
/// or a program, and a user's settings of compilers, flags and profiles for the host. Settings of the registry and of the
/// output stay. The job server stays too, so that both cargos together keep to one number of jobs.
pub fn belongs_to_outer_cargo(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_INCREMENTAL",
        "CARGO_PRIMARY_PACKAGE",
        "DEBUG",
        "HOST",
        "NUM_JOBS",
        "OPT_LEVEL",
        "OUT_DIR",
        "PROFILE",
        "RUSTC",
        "RUSTDOC",
        "RUSTDOCFLAGS",
        "RUSTFLAGS",
        "TARGET",
    ];
    const PREFIXES: &[&str] = &[
        "CARGO_BIN_",
        "CARGO_BUILD_",
        "CARGO_CFG_",
        "CARGO_CRATE_",
        "CARGO_FEATURE_",
        "CARGO_MANIFEST_",
        "CARGO_PKG_",
        "CARGO_PROFILE_",
        "CARGO_TARGET_",
        "CARGO_UNSTABLE_",
        "DEP_",
        "RUSTC_",
    ];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_cargo_does_not_inherit_outer_cargo_variables() {
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_BUILD_TARGET",
            "CARGO_BUILD_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER",
            "CARGO_CFG_UNIX",
            "CARGO_FEATURE_DEFAULT",
            "CARGO_MANIFEST_DIR",
            "CARGO_PROFILE_GUEST_LTO",
            "OUT_DIR",
            "TARGET",
        ] {
            assert!(belongs_to_outer_cargo(name), "{name}");
        }
        for name in [
            "PATH",
            "CARGO",
            "CARGO_HOME",
            "CARGO_MAKEFLAGS",
            "CARGO_NET_OFFLINE",
            "CARGO_TERM_COLOR",
            "RUSTUP_TOOLCHAIN",
        ] {
            assert!(!belongs_to_outer_cargo(name), "{name}");
        }
    }
}
