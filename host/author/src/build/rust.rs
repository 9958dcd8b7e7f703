//! Rust: cargo, with the standard library of its own toolchain or one that a script makes.

use std::{ffi::OsString, fs, path::PathBuf, process::Command};

use shelly_core::files;
use shelly_guest_builder::{belongs_to_outer_cargo, parse_env};

use super::{
    cargo_output::wasm_artifact,
    plugin_build::{BuiltComponent, PluginBuild},
};
use crate::{
    author_error::AuthorError,
    encoding::AdapterMemory,
    language::PluginLanguage,
    plugin_project::PluginProject,
    tool_run::{ToolStream, run_tool},
    toolchain::{find_tool, has_wasm_std, install_command},
};

const TARGET: &str = "wasm32-unknown-unknown";
/// A smaller stack: most of the cost of a call is the memory that it touches first. Code that was not optimised needs more.
const FLAGS: &str = "-Clink-arg=-zstack-size=65536";
const FLAGS_VARIABLE: &str = "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS";
/// The script that makes the target usable where rustup has none.
const SCRIPT: &str = include_str!("../../../../sdk/rust/wasm-toolchain.sh");

pub(super) fn component(build: &mut PluginBuild<'_>) -> Result<BuiltComponent, AuthorError> {
    let cargo = find_tool(build.environment, PluginLanguage::Rust, "cargo")?;
    let variables = target_variables(build)?;
    let mut command = Command::new(cargo);
    command.args(["build", "--target", TARGET, "--message-format", "json-render-diagnostics"]);
    command.arg("--manifest-path").arg(build.project.source(&["Cargo.toml"])?);
    for (name, _) in build.environment.variables.iter().filter(|(name, _)| is_of_another_build(name)) {
        command.env_remove(name);
    }
    if build.is_release {
        command.arg("--release").env(FLAGS_VARIABLE, FLAGS);
    }
    command.envs(variables);
    if let Some(folder) = build.project.compiler_folder() {
        command.env("CARGO_TARGET_DIR", folder);
    }
    let mut artifact = None;
    build.run_tool_with(&mut command, &mut |stream, line| {
        artifact = (stream == ToolStream::Output).then(|| wasm_artifact(line)).flatten().or(artifact.take());
        stream == ToolStream::Output
    })?;
    let Some(artifact) = artifact else {
        return Err(AuthorError::NoOutput {
            program: "cargo".into(),
            hint: "write `crate-type = [\"cdylib\"]` under [lib] in Cargo.toml".into(),
        });
    };
    let component = build.component_of(&artifact, None, AdapterMemory::OfModule)?;
    // The SDK has the contract. A world of its own is in the project.
    let wit = if build.project.wit_folder().is_dir() { Some(build.project.wit()?) } else { None };
    Ok((component, wit))
}

/// Returns `true` for variables of another cargo that runs this program. The folder of artifacts is the person's choice.
fn is_of_another_build(name: &str) -> bool {
    name != "CARGO_TARGET_DIR" && belongs_to_outer_cargo(name)
}

/// Returns the variables that make cargo find the target: none if its own toolchain has the standard library.
fn target_variables(build: &mut PluginBuild<'_>) -> Result<Vec<(String, OsString)>, AuthorError> {
    let rustc = find_tool(build.environment, PluginLanguage::Rust, "rustc")?;
    let mut sysroot = None;
    let mut ask = Command::new(&rustc);
    ask.args(["--print", "sysroot"]).current_dir(&build.project.folder);
    run_tool(&mut ask, build.cancellation, &mut |stream, line| {
        if stream == ToolStream::Output {
            sysroot = Some(PathBuf::from(line));
        }
        false
    })?;
    let is_forced = build.environment.wasm_route.as_deref() == Some("debian");
    if !is_forced && sysroot.is_some_and(|sysroot| has_wasm_std(&sysroot)) {
        return Ok(Vec::new());
    }
    let folder = toolchain_folder(build.project, build.environment.cache.as_ref());
    let missing = |why: String| AuthorError::NoTool {
        language: PluginLanguage::Rust,
        what: format!("the target {TARGET}"),
        why,
        install: install_command(PluginLanguage::Rust),
    };
    let bash = find_tool(build.environment, PluginLanguage::Rust, "bash")
        .map_err(|_| missing("which is not installed".into()))?;
    fs::create_dir_all(&folder).map_err(AuthorError::file("create", &folder))?;
    let script = folder.join("wasm-toolchain.sh");
    files::replace(&script, SCRIPT.as_bytes()).map_err(AuthorError::file("write", &script))?;
    let made = build.run_tool(Command::new(bash).arg(&script).arg(&folder));
    made.map_err(|error| match error {
        AuthorError::ToolFailed { .. } => missing("which is not installed and could not be made".into()),
        error => error,
    })?;
    let env = folder.join("env.sh");
    let text = fs::read_to_string(&env).map_err(AuthorError::file("read", &env))?;
    parse_env(&text).map_err(|message| missing(format!("and {} is not usable: {message}", env.display())))
}

/// Returns the folder of the toolchain that the script makes: one for all projects, if there is a cache.
fn toolchain_folder(project: &PluginProject, cache: Option<&PathBuf>) -> PathBuf {
    cache.map_or_else(|| project.work().join("wasm-toolchain"), |cache| cache.join("wasm-toolchain"))
}
