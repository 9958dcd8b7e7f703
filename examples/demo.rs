//! `cargo demo`: builds the host and the plugins of the quick start, and runs the quick start to its answer.
//!
//! The demo uses nothing special: the last line that it prints before the run is the command to type yourself.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use shelly_guest_builder::{Builder, GuestFolder};

const CONFIG: &str = "examples/01-quick-start/shelly.yaml";
const TASK: &str = "How many words are in README.md, and which are its five longest lines?";

fn main() -> ExitCode {
    let task = env::args().nth(1).unwrap_or_else(|| TASK.into());
    match run(&task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &str) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the examples stand in the repository")?;
    eprintln!("building the plugins of the quick start …");
    let plugins = GuestFolder::new("plugin", "plugins", "target/plugins");
    let builder = Builder::new(root)?;
    let config = fs::read_to_string(root.join(CONFIG))?;
    // Of all plugins most of the build's time would be spent on those that the quick start does not use.
    let used = builder.discover(&plugins)?.into_iter().map(|guest| guest.id).filter(|id| config.contains(id.as_str()));
    let used: Vec<_> = used.collect();
    builder.only(used).build(&[plugins])?;
    eprintln!("building the host …");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Without `--package`, dependencies get the features that `cargo test` builds with, so that both commands share one
    // build of them.
    let mut build = Command::new(cargo);
    build.current_dir(root).args(["build", "--bin", "shelly-host"]);
    for (name, _) in env::vars_os().filter(|(name, _)| tells_of_this_package(&name.to_string_lossy())) {
        build.env_remove(name);
    }
    let built = build.status()?;
    if !built.success() {
        return Err("the host could not be built".into());
    }
    let host = target_directory(root).join("debug").join(format!("shelly-host{}", env::consts::EXE_SUFFIX));
    let arguments = ["run", "--config", CONFIG, "--plugins", "target/plugins", task];
    eprintln!("\n$ {} {} {:?}\n", shown(&host, root), arguments[..5].join(" "), task);
    let status = Command::new(host).current_dir(root).args(arguments).status()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Returns `true` for a variable that describes this package to programs that cargo runs. Build scripts of dependencies
/// watch some of these variables: if they were set, the scripts would run again and everything that depends on them would
/// be rebuilt.
fn tells_of_this_package(variable: &str) -> bool {
    let one = ["CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"].contains(&variable);
    one || ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| variable.starts_with(prefix))
}

fn target_directory(root: &Path) -> PathBuf {
    root.join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from))
}

fn shown(host: &Path, root: &Path) -> String {
    host.strip_prefix(root).unwrap_or(host).display().to_string()
}
