//! The search for the programs of a toolchain.

use std::path::{Path, PathBuf};

use super::{
    build_environment::BuildEnvironment,
    installation::{install_command, install_node_tool},
};
use crate::{author_error::AuthorError, language::PluginLanguage};

/// A C compiler for WASI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CCompiler {
    /// The name in messages.
    pub name: &'static str,
    pub program: PathBuf,
    /// The arguments that come first.
    pub args: Vec<String>,
}

/// The folders of the headers of Debian's package `wasi-libc`, and of others.
const WASI_LIBC: [&str; 3] =
    ["/usr/include/wasm32-wasi", "/usr/share/wasi-sysroot", "/opt/homebrew/share/wasi-sysroot"];

/// Finds a program on the search path.
pub(crate) fn find_tool(
    environment: &BuildEnvironment,
    language: PluginLanguage,
    name: &str,
) -> Result<PathBuf, AuthorError> {
    in_path(environment, name).ok_or_else(|| AuthorError::NoTool {
        language,
        what: format!("`{name}`"),
        why: "which is not on PATH".into(),
        install: install_command(language),
    })
}

fn in_path(environment: &BuildEnvironment, name: &str) -> Option<PathBuf> {
    environment.finder.find(name, Path::new("")).ok()
}

fn in_folders(
    environment: &BuildEnvironment,
    folders: impl IntoIterator<Item = PathBuf>,
    name: &str,
) -> Option<PathBuf> {
    // On Windows programs of scripts have an ending of their own.
    let names = if cfg!(windows) { vec![format!("{name}.cmd"), format!("{name}.exe")] } else { vec![name.to_owned()] };
    let mut paths =
        folders.into_iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)).collect::<Vec<_>>());
    paths.find_map(|path| environment.finder.find(&path.to_string_lossy(), Path::new("")).ok())
}

/// Finds a program of npm: in the `node_modules` of the project or of a folder above it, or on the search path.
pub(crate) fn find_node_tool(
    environment: &BuildEnvironment,
    language: PluginLanguage,
    project: &Path,
    name: &str,
) -> Result<PathBuf, AuthorError> {
    let folders = project.ancestors().map(|folder| folder.join("node_modules/.bin"));
    in_folders(environment, folders, name).or_else(|| in_path(environment, name)).ok_or_else(|| AuthorError::NoTool {
        language,
        what: format!("`{name}`"),
        why: format!("which is neither in {} nor on PATH", project.join("node_modules").display()),
        install: match project.join("package.json").is_file() {
            true => "npm install".into(),
            false => install_node_tool(language, name),
        },
    })
}

/// Finds a program of pip: in the virtual environment of the project, or on the search path.
pub(crate) fn find_python_tool(
    environment: &BuildEnvironment,
    project: &Path,
    name: &str,
) -> Result<PathBuf, AuthorError> {
    let bin = if cfg!(windows) { "Scripts" } else { "bin" };
    let folders = [".venv", "venv"].map(|folder| project.join(folder).join(bin));
    in_folders(environment, folders, name).or_else(|| in_path(environment, name)).ok_or_else(|| AuthorError::NoTool {
        language: PluginLanguage::Python,
        what: format!("`{name}`"),
        why: "which is neither in .venv of the project nor on PATH".into(),
        install: install_command(PluginLanguage::Python),
    })
}

/// Finds a C compiler that can build for WASI: of wasi-sdk, of Zig, or clang with a libc for WASI.
pub(crate) fn find_c_compiler(environment: &BuildEnvironment) -> Result<CCompiler, AuthorError> {
    let sdk = environment.wasi_sdk.clone().into_iter().chain([PathBuf::from("/opt/wasi-sdk")]);
    let of_sdk = sdk.map(|sdk| sdk.join("bin"));
    if let Some(program) = in_folders(environment, of_sdk, "clang") {
        return Ok(CCompiler { name: "clang of wasi-sdk", program, args: Vec::new() });
    }
    for name in ["zig", "python-zig"] {
        if let Some(program) = in_path(environment, name) {
            return Ok(CCompiler { name: "zig cc", program, args: vec!["cc".into()] });
        }
    }
    let libc = WASI_LIBC.into_iter().find(|folder| Path::new(folder).is_dir());
    if let (Some(program), Some(libc)) = (in_path(environment, "clang"), libc) {
        let args = if libc.ends_with("sysroot") { vec![format!("--sysroot={libc}")] } else { Vec::new() };
        return Ok(CCompiler { name: "clang", program, args });
    }
    Err(AuthorError::NoTool {
        language: PluginLanguage::C,
        what: "a C compiler for WASI".into(),
        why: match in_path(environment, "clang") {
            Some(_) => "and clang is here without a libc for WASI".into(),
            None => "and neither zig nor wasi-sdk nor clang with wasi-libc is here".into(),
        },
        install: install_command(PluginLanguage::C),
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn environment(path: &Path) -> BuildEnvironment {
        BuildEnvironment::new(vec![("PATH".into(), path.display().to_string())], None)
    }

    #[test]
    fn tool_of_the_project_precedes_that_on_the_path() {
        let world = tempfile::tempdir().unwrap();
        let at = |path: &str| world.path().join(path);
        let environment = environment(&at("path"));
        let project = at("work/space/plugin");
        fs::create_dir_all(&project).unwrap();
        let node = || find_node_tool(&environment, PluginLanguage::JavaScript, &project, "componentize-js");
        let error = node().unwrap_err().report();
        assert!(error.hint.unwrap().contains("npm install --save-dev @bytecodealliance/componentize-js@"));
        let quickjs = find_node_tool(&environment, PluginLanguage::JavaScript, &project, "componentize-qjs");
        let hint = quickjs.unwrap_err().report().hint.unwrap();
        assert!(hint.contains("npm install --save-dev componentize-qjs@"), "{hint}");
        fs::write(project.join("package.json"), "{}").unwrap();
        assert_eq!(node().unwrap_err().report().hint.unwrap(), "install it: npm install");
        for path in ["path/componentize-js", "work/node_modules/.bin/componentize-js"] {
            program(&at(path));
            assert_eq!(node().unwrap(), at(path), "a folder above the project");
        }
        let python = || find_python_tool(&environment, &project, "componentize-py");
        assert!(python().unwrap_err().report().hint.unwrap().contains("pip install componentize-py=="));
        for path in ["path/componentize-py", "work/space/plugin/.venv/bin/componentize-py"] {
            program(&at(path));
            assert_eq!(python().unwrap(), at(path));
        }
    }

    #[test]
    fn c_compiler_of_wasi_sdk_precedes_zig() {
        let world = tempfile::tempdir().unwrap();
        let at = |path: &str| world.path().join(path);
        let mut environment = environment(&at("path"));
        program(&at("path/python-zig"));
        let found = find_c_compiler(&environment).unwrap();
        assert_eq!((found.name, found.args), ("zig cc", vec!["cc".to_owned()]));
        program(&at("sdk/bin/clang"));
        environment.wasi_sdk = Some(at("sdk"));
        assert_eq!(find_c_compiler(&environment).unwrap().program, at("sdk/bin/clang"));
    }
}

/// Returns `true` if the standard library of the Rust target is in a sysroot.
pub(crate) fn has_wasm_std(sysroot: &Path) -> bool {
    let folder = sysroot.join("lib/rustlib/wasm32-unknown-unknown/lib");
    let Ok(entries) = folder.read_dir() else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
}
