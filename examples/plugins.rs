//! `cargo plugins`: builds all plugins that come with the host, and those of the examples.

use std::{path::Path, process::ExitCode};

use shelly_guest_builder::{BuildError, Builder, GuestFolder};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match build(&root) {
        Ok(count) => {
            eprintln!("{count} plugins are in target/plugins and target/example-plugins");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build(root: &Path) -> Result<usize, BuildError> {
    let folders = [
        GuestFolder::new("plugin", "plugins", "target/plugins"),
        GuestFolder::new("example", "examples/plugins", "target/example-plugins"),
    ];
    Ok(Builder::new(root)?.build(&folders)?.len())
}
