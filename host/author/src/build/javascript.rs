//! JavaScript: componentize-js, or componentize-qjs for QuickJS. TypeScript is checked by tsc and made one file of JavaScript by
//! esbuild before.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use shelly_core::{files, limits};

use super::plugin_build::{BuiltComponent, PluginBuild, read};
use crate::{
    author_error::AuthorError,
    contract::WIT_FOLDER,
    javascript_engine::JavaScriptEngine,
    language::PluginLanguage,
    project_wit::ProjectWit,
    toolchain::find_node_tool,
    typescript_types::{TYPES_FILE, typescript_types},
};

pub(super) fn component(build: &mut PluginBuild<'_>) -> Result<BuiltComponent, AuthorError> {
    let project = build.project;
    let componentizer = project.engine.componentizer();
    let program = find_node_tool(build.environment, project.language, &project.folder, componentizer)?;
    let wit = project.wit()?;
    let source = match project.language {
        PluginLanguage::TypeScript => bundle(build, &wit)?,
        _ => project.source(&["src/plugin.js", "plugin.js", "src/index.js", "index.js"])?,
    };
    let output = project.work().join("component.wasm");
    let mut command = Command::new(program);
    match project.engine {
        JavaScriptEngine::SpiderMonkey => {
            command.arg(&source).args(["--wit", WIT_FOLDER, "--world-name", wit.world_name()]);
            // The runtime imports wasi:http unless this turns it off, and `fetch` needs it.
            let disabled: &[&str] =
                if project.settings.wants_http { &["fetch-event"] } else { &["http", "fetch-event"] };
            for feature in disabled {
                command.args(["--disable", feature]);
            }
            command.arg("--out").arg(&output);
        }
        JavaScriptEngine::QuickJs => {
            note_wide_integers(build, &wit);
            command.arg("--js").arg(&source).args(["--wit", WIT_FOLDER, "--world", wit.world_name()]);
            // Without asynchronous functions, which the host does not call, and without imports of WASI.
            command.args(["--sync", "--opt-size", "--stub-wasi"]);
            command.arg("--output").arg(&output);
        }
    }
    build.run_tool(&mut command)?;
    Ok((read(&output, limits::COMPONENT_BYTES)?, Some(wit)))
}

/// Tells the author which functions pass integers that QuickJS rounds.
fn note_wide_integers(build: &mut PluginBuild<'_>, wit: &ProjectWit) {
    let functions = wit.functions_of_wide_integers();
    if functions.is_empty() {
        return;
    }
    let named: Vec<_> = functions.iter().take(limits::NAMES_SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if functions.len() > limits::NAMES_SHOWN { ", …" } else { "" };
    build.note(&format!(
        "warning: QuickJS rounds integers of 64 bits beyond 2^53, as {}{more} may pass; pass strings, or remove `engine` under \
         [build] in plugin.toml",
        named.join(", ")
    ));
}

/// Checks the types and bundles the sources. Returns the bundle.
fn bundle(build: &mut PluginBuild<'_>, wit: &ProjectWit) -> Result<PathBuf, AuthorError> {
    let project = build.project;
    let find = |name: &str| find_node_tool(build.environment, project.language, &project.folder, name);
    let (tsc, esbuild) = (find("tsc")?, find("esbuild")?);
    let source = project.source(&["src/plugin.ts", "plugin.ts", "src/index.ts", "index.ts"])?;
    write_types(&project.folder, wit)?;
    build.run_tool(Command::new(tsc).args(["--noEmit", "--pretty", "false"]))?;
    let output = project.work().join("plugin.js");
    let mut command = Command::new(esbuild);
    command.arg(&source).args(["--bundle", "--format=esm", "--platform=neutral", "--main-fields=module,main"]);
    command.args(["--target=es2022", "--log-level=warning", "--color=false"]);
    for import in wit.imports() {
        command.arg(format!("--external:{import}"));
    }
    if build.is_release {
        command.arg("--minify");
    }
    command.arg(format!("--outfile={}", output.display()));
    build.run_tool(&mut command)?;
    Ok(output)
}

/// Writes the types of the project's world, so that they follow its WIT.
fn write_types(folder: &Path, wit: &ProjectWit) -> Result<(), AuthorError> {
    let (path, types) = (folder.join(TYPES_FILE), typescript_types(wit));
    let unchanged = std::fs::read_to_string(&path).is_ok_and(|there| there == types);
    if unchanged {
        return Ok(());
    }
    let parent = files::folder_of(&path);
    std::fs::create_dir_all(parent).map_err(AuthorError::file("create", parent))?;
    files::replace(&path, types.as_bytes()).map_err(AuthorError::file("write", &path))
}
