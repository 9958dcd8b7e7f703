//! Go: its own compiler, whose module is joined with the adapter of WASI.

use std::{path::PathBuf, process::Command};

use super::{
    go_overlay,
    plugin_build::{BuiltComponent, PluginBuild},
};
use crate::{
    author_error::AuthorError,
    encoding::AdapterMemory,
    language::PluginLanguage,
    tool_run::{ToolStream, run_tool},
    toolchain::{find_tool, install_command, is_new_go},
};

pub(super) fn component(build: &mut PluginBuild<'_>) -> Result<BuiltComponent, AuthorError> {
    let project = build.project;
    let go = find_tool(build.environment, PluginLanguage::Go, "go")?;
    let wit = project.wit()?;
    // In the order of the arguments, a line each.
    let mut said = Vec::new();
    run_tool(
        Command::new(&go).args(["env", "GOROOT", "GOVERSION"]).current_dir(&project.folder),
        build.cancellation,
        &mut |stream, line| {
            if stream == ToolStream::Output {
                said.push(line.to_owned());
            }
            false
        },
    )?;
    let version = said.get(1).cloned().unwrap_or_default();
    if !is_new_go(&version) {
        return Err(AuthorError::NoTool {
            language: PluginLanguage::Go,
            what: "Go 1.24 or newer".into(),
            why: format!("and {} is here", shelly_core::error::legible(&version)),
            install: install_command(PluginLanguage::Go),
        });
    }
    let root = PathBuf::from(said.first().cloned().unwrap_or_default());
    let overlay = go_overlay::write(&root, &version, &project.work())?;
    let output = project.work().join("module.wasm");
    let mut command = Command::new(go);
    command.args(["build", "-buildmode=c-shared"]).arg("-overlay").arg(&overlay);
    if build.is_release {
        command.args(["-trimpath", "-ldflags=-s -w"]);
    }
    command.arg("-o").arg(&output).arg(format!("./{}", project.source(&["."])?.display()));
    command.env("GOOS", "wasip1").env("GOARCH", "wasm");
    build.run_tool(&mut command)?;
    // The runtime must have begun before its allocator is called.
    let component = build.component_of(&output, Some(&wit), AdapterMemory::NewPages)?;
    Ok((component, Some(wit)))
}
