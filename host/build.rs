//! Tells the crate for which target, with which profile and from which commit it is built.

#[path = "src/cli/git_commit.rs"]
mod git_commit;

use std::{env, path::Path};

use git_commit::checked_out_commit;

fn main() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let (target, profile) = (variable("TARGET"), variable("PROFILE"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/cli/git_commit.rs");
    println!("cargo::rustc-env=SHELLY_BUILD_TARGET={target}");
    println!("cargo::rustc-env=SHELLY_BUILD_PROFILE={profile}");
    // A development build has none: each commit would have everything built anew that stands on this crate.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let commit = if profile == "release" { checked_out_commit(&root) } else { None };
    if let Some(commit) = commit {
        for file in commit.files {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        println!("cargo::rustc-env=SHELLY_BUILD_COMMIT={}", commit.id);
    }
}
