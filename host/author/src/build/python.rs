//! Python: componentize-py.

use std::{path::Path, process::Command};

use shelly_core::limits;

use super::plugin_build::{BuiltComponent, PluginBuild, read};
use crate::{author_error::AuthorError, contract::WIT_FOLDER, toolchain::find_python_tool};

pub(super) fn component(build: &mut PluginBuild<'_>) -> Result<BuiltComponent, AuthorError> {
    let project = build.project;
    let program = find_python_tool(build.environment, &project.folder, "componentize-py")?;
    let wit = project.wit()?;
    let source = project.source(&["app.py", "src/app.py"])?;
    let module = source.file_stem().and_then(|stem| stem.to_str()).filter(|stem| is_module(stem)).ok_or_else(|| {
        let why = "is not the name of a Python module: use letters, digits and _";
        AuthorError::Source { source_name: source.display().to_string(), why }
    })?;
    let folder = source.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let output = project.work().join("component.wasm");
    let mut command = Command::new(program);
    command.args(["-d", WIT_FOLDER, "-w", wit.world_name(), "componentize", "-p"]).arg(folder).arg(module);
    // Without the backtrace of its own code, the last lines are the error in Python.
    command.arg("-o").arg(&output).env("RUST_BACKTRACE", "0");
    build.run_tool(&mut command)?;
    Ok((read(&output, limits::COMPONENT_BYTES)?, Some(wit)))
}

fn is_module(stem: &str) -> bool {
    let is_first = |c: char| c.is_alphabetic() || c == '_';
    stem.starts_with(is_first) && stem.chars().all(|c| c.is_alphanumeric() || c == '_')
}
