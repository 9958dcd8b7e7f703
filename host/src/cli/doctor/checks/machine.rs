//! Checks of directories, of the sandbox, of the terminal and of programs.

use std::{
    fs,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    thread::available_parallelism,
};

use anstream::{AutoStream, ColorChoice};

use crate::{
    app::{self, find_program},
    cli::{
        doctor::{doctor_context::DoctorContext, finding::UnnamedFinding},
        host_environment::{compiling, environment},
        render::{path_name, size},
        trust,
    },
    config::Config,
    error::{count, without_number},
    limits,
    plugin::{CompileSandboxStatus, ComponentCompiler, PluginEngine},
};

pub(super) fn directories(context: &DoctorContext) -> Vec<UnnamedFinding> {
    let cache = compiling().cache;
    let state = trust::kept("trust.json").and_then(|path| path.parent().map(Path::to_owned));
    let is_recording = context.config().is_none_or(|config| config.sessions.is_recording());
    let sessions = match is_recording {
        true => directory("sessions", Some(app::sessions(&context.root(), trust::own_key()).folder().to_owned()), ""),
        // No run writes there, so the project may be read-only.
        false => UnnamedFinding::ok("sessions: not recorded, as the config says (`sessions.record`)"),
    };
    [
        directory(
            "cache",
            cache,
            "set SHELLY_CACHE_DIR, XDG_CACHE_HOME or HOME: without it every run compiles its plugins",
        ),
        directory("state", state, "set XDG_STATE_HOME or HOME: without it nothing is remembered that you trust"),
        sessions,
    ]
    .into()
}

/// Checks that a directory can be written to, and adds up its files. `path` is `None` if no variable says where it is.
fn directory(name: &str, path: Option<PathBuf>, mend: &str) -> UnnamedFinding {
    let Some(path) = path else {
        return UnnamedFinding::note(format!("{name}: no directory")).hint(mend);
    };
    let place = path_name(&path);
    if let Err(error) = writable(&path) {
        return UnnamedFinding::problem(format!("{name}: {place} cannot be written to"))
            .details([without_number(&error.to_string())])
            .hint("check its permissions, and that no file is in its place");
    }
    if !path.is_dir() {
        return UnnamedFinding::ok(format!("{name}: {place}, created when needed"));
    }
    let DirectorySize { bytes, files, is_whole } = DirectorySize::of(&path);
    let at_least = if is_whole { "" } else { "at least " };
    let files = count(files as u64, "file", "files");
    UnnamedFinding::ok(format!("{name}: {place}, {at_least}{} in {files}", size(bytes)))
}

/// Checks that files can be created in a directory, or in the nearest folder above it that exists. The file that is
/// created for that has no name, or is gone at once.
fn writable(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let there = path.ancestors().find(|folder| folder.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
    tempfile::tempfile_in(there).map(drop)
}

/// The size of a directory with everything below it.
#[derive(Debug, Default, PartialEq, Eq)]
struct DirectorySize {
    bytes: u64,
    files: usize,
    /// `false` if there are more than [`limits::DOCTOR_DIRECTORY_ENTRIES`] entries.
    is_whole: bool,
}

impl DirectorySize {
    /// Adds up the files of a directory. Links are not followed, and what cannot be read is left out.
    fn of(path: &Path) -> Self {
        let (mut size, mut folders, mut entries) =
            (Self { is_whole: true, ..Self::default() }, vec![path.to_owned()], 0);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                entries += 1;
                if entries > limits::DOCTOR_DIRECTORY_ENTRIES {
                    return Self { is_whole: false, ..size };
                }
                match entry.metadata() {
                    Ok(facts) if facts.is_dir() => folders.push(entry.path()),
                    Ok(facts) if facts.is_file() => {
                        (size.bytes, size.files) = (size.bytes + facts.len(), size.files + 1)
                    }
                    _ => {}
                }
            }
        }
        size
    }
}

pub(super) fn sandbox(context: &DoctorContext) -> Vec<UnnamedFinding> {
    let compiler = ComponentCompiler::from(compiling());
    let of_compiler = match context.block_on(compiler.sandbox_status()) {
        Ok(Some(status)) => compile_sandbox(status),
        Ok(None) => UnnamedFinding::note("components are compiled in this process, without a sandbox"),
        Err(failure) => UnnamedFinding::problem("no component can be compiled")
            .details([failure.to_string()])
            .hint("check that the program may start itself and has memory; SHELLY_LOG=debug shows more"),
    };
    let cores = available_parallelism().map_or_else(|_| "unknown".to_owned(), |cores| cores.to_string());
    let memory = match &context.app {
        Ok(app) => app.guest_memory().0,
        Err(_) => PluginEngine::guest_memory_for(None, Config::default().largest_memory_bytes()).0 as u64,
    };
    let facts = [format!("processors: {cores}"), format!("memory for all plugins together: {}", size(memory))];
    vec![of_compiler.details(facts)]
}

/// Says which parts of the sandbox of the process that compiles are active.
fn compile_sandbox(status: CompileSandboxStatus) -> UnnamedFinding {
    let CompileSandboxStatus { limits, files, calls } = status;
    let parts = [
        ("limits of memory and time", limits),
        ("no files and ports (Landlock)", files),
        ("only the system calls of a compiler (seccomp)", calls),
    ];
    let lines = parts.map(|(part, is_active)| format!("{part}: {}", if is_active { "active" } else { "missing" }));
    match parts.iter().all(|(_, is_active)| *is_active) {
        true => UnnamedFinding::ok("components are compiled in a sandboxed process").details(lines),
        false => UnnamedFinding::note("components are compiled in a process whose sandbox lacks a part").details(lines).hint(
            "use Linux 5.13 or newer with Landlock and seccomp; plugins themselves are sandboxed by WebAssembly all the same",
        ),
    }
}

pub(super) fn terminal(_: &DoctorContext) -> Vec<UnnamedFinding> {
    let yes = |is_so: bool| if is_so { "yes" } else { "no" };
    let has_colours = |choice: ColorChoice| yes(choice != ColorChoice::Never);
    let (out, err) = (io::stdout(), io::stderr());
    let facts = [
        format!("a person can be asked: {}", yes(crate::cli::ask::is_attended())),
        format!("standard output is a terminal: {}", yes(out.is_terminal())),
        format!(
            "standard error is a terminal: {}, with colours: {}",
            yes(err.is_terminal()),
            has_colours(AutoStream::choice(&err))
        ),
        format!(
            "size: {}",
            terminal_size().map_or("unknown".to_owned(), |(columns, rows)| format!("{columns} x {rows}"))
        ),
        format!("TERM: {}", std::env::var("TERM").unwrap_or_else(|_| "not set".into())),
    ];
    let is_usable = err.is_terminal();
    let message = if is_usable { "progress goes to a terminal" } else { "progress goes to a file or a pipe" };
    vec![UnnamedFinding::ok(message).details(facts)]
}

/// Returns the columns and rows of the terminal that standard error or standard output is.
#[cfg(unix)]
fn terminal_size() -> Option<(u16, u16)> {
    use rustix::termios::tcgetwinsize;
    let size = tcgetwinsize(io::stderr()).or_else(|_| tcgetwinsize(io::stdout())).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

#[cfg(not(unix))]
fn terminal_size() -> Option<(u16, u16)> {
    None
}

/// A program of everyday use, and what is missing without it.
struct EverydayProgram {
    name: &'static str,
    without: &'static str,
}

const EVERYDAY_PROGRAMS: [EverydayProgram; 1] =
    [EverydayProgram { name: "git", without: "the toolbox `git` cannot be used" }];

pub(super) fn programs(_: &DoctorContext) -> Vec<UnnamedFinding> {
    let environment = environment();
    let finding = |program: &EverydayProgram| match find_program(&environment, program.name) {
        Ok(path) => UnnamedFinding::ok(format!("{}: {}", program.name, path.display())),
        Err(error) => UnnamedFinding::note(format!("{} is missing: {}", program.name, program.without))
            .details([error.to_string()])
            .hint(format!("install {}, or add its folder to PATH", program.name)),
    };
    EVERYDAY_PROGRAMS.iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::DoctorStatus;

    #[test]
    fn sandbox_without_a_part_is_a_note_that_names_it() {
        let whole = CompileSandboxStatus { limits: true, files: true, calls: true };
        let status = |status| compile_sandbox(status).of_check("sandbox");
        assert_eq!(status(whole).status, DoctorStatus::Ok);
        let partial = status(CompileSandboxStatus { files: false, ..whole });
        assert_eq!(partial.status, DoctorStatus::Note);
        assert!(
            partial.details.iter().any(|line| line.contains("Landlock") && line.ends_with("missing")),
            "{partial:?}"
        );
        assert!(partial.hint.is_some());
    }

    #[test]
    fn directory_is_measured_and_need_not_exist() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let of = |path: &Path| directory("cache", Some(path.to_owned()), "").of_check("directories");
        let missing = of(&path);
        assert!(missing.status == DoctorStatus::Ok && missing.message.contains("created when needed"), "{missing:?}");
        assert!(!folder.path().join("a").exists(), "nothing is made by looking");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("x"), "12345").unwrap();
        fs::write(path.join("../y"), "123").unwrap();
        let there = of(&folder.path().join("a"));
        assert!(there.message.ends_with(", 8 B in 2 files"), "{there:?}");
        assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 2, "no trace is left");
        let below_a_file = of(&path.join("x/cache"));
        assert_eq!(below_a_file.status, DoctorStatus::Problem, "{below_a_file:?}");
        let nowhere = directory("cache", None, "set HOME").of_check("directories");
        assert_eq!((nowhere.status, nowhere.hint.as_deref()), (DoctorStatus::Note, Some("set HOME")));
    }
}
