//! C: a compiler for WASI, whose module is joined with the adapter.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shelly_core::limits;

use super::plugin_build::{BuiltComponent, PluginBuild};
use crate::{
    author_error::AuthorError, encoding::AdapterMemory, sdk_sources::C_SDK_FOLDER, toolchain::find_c_compiler,
};

pub(super) fn component(build: &mut PluginBuild<'_>) -> Result<BuiltComponent, AuthorError> {
    let project = build.project;
    let compiler = find_c_compiler(build.environment)?;
    let wit = project.wit()?;
    let sources = sources(&project.folder, &project.source(&["."])?)?;
    let output = project.work().join("module.wasm");
    let mut command = Command::new(&compiler.program);
    command.args(&compiler.args).args(["--target=wasm32-wasi", "-mexec-model=reactor", "-Wall"]);
    // A smaller stack: most of the cost of a call is the memory that it touches first.
    command.args(if build.is_release { ["-Os", "-s"] } else { ["-O1", "-g0"] }).arg("-Wl,-z,stack-size=65536");
    // What the plugin does not call of the SDK is left out, with the imports that it needs.
    command.arg("-Wl,--gc-sections");
    command.arg("-o").arg(&output).args(sources);
    build.run_tool(&mut command)?;
    let component = build.component_of(&output, Some(&wit), AdapterMemory::OfModule)?;
    Ok((component, Some(wit)))
}

/// Returns the files to compile: the source itself, or all of a folder in the order of their names; with those of the SDK if
/// the project has it.
fn sources(project: &Path, source: &Path) -> Result<Vec<PathBuf>, AuthorError> {
    let name = || source.display().to_string();
    let mut found = match project.join(source).is_file() {
        true => vec![source.into()],
        false => sources_of_folder(project, source)?,
    };
    if found.is_empty() {
        return Err(AuthorError::Source { source_name: name(), why: "has no file that ends in .c" });
    }
    if project.join(C_SDK_FOLDER).is_dir() && source != Path::new(C_SDK_FOLDER) {
        found.extend(sources_of_folder(project, Path::new(C_SDK_FOLDER))?);
    }
    match found.len() > limits::C_SOURCES {
        true => Err(AuthorError::Source { source_name: name(), why: "has more than 256 files that end in .c" }),
        false => Ok(found),
    }
}

/// Returns the sources that are directly in a folder of the project.
fn sources_of_folder(project: &Path, source: &Path) -> Result<Vec<PathBuf>, AuthorError> {
    let folder = project.join(source);
    let unreadable = || AuthorError::file("read", &folder);
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unreadable())? {
        let name = entry.map_err(unreadable())?.file_name();
        if Path::new(&name).extension() == Some(OsStr::new("c")) {
            // With a folder before it no name is taken for an option.
            found.push(Path::new(".").join(source).join(name));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sources_of_a_folder_are_compiled_up_to_a_limit() {
        let world = tempfile::tempdir().unwrap();
        let listed = || sources(world.path(), Path::new("."));
        assert!(listed().unwrap_err().to_string().ends_with("has no file that ends in .c"));
        for name in ["-o.c", "b.c", "a.h"] {
            fs::write(world.path().join(name), "").unwrap();
        }
        assert_eq!(listed().unwrap(), ["././-o.c", "././b.c"].map(PathBuf::from));
        assert_eq!(sources(world.path(), Path::new("b.c")).unwrap(), [PathBuf::from("b.c")]);
        fs::create_dir_all(world.path().join("shelly/tests")).unwrap();
        fs::write(world.path().join("shelly/host.c"), "").unwrap();
        assert_eq!(listed().unwrap(), ["././-o.c", "././b.c", "./shelly/host.c"].map(PathBuf::from));
        assert_eq!(sources(world.path(), Path::new("b.c")).unwrap().len(), 2, "the SDK belongs to each source");
        for number in 0..limits::C_SOURCES {
            fs::write(world.path().join(format!("{number}.c")), "").unwrap();
        }
        assert!(listed().unwrap_err().to_string().ends_with("has more than 256 files that end in .c"));
    }
}
