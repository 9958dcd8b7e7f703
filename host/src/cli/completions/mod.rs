//! Completion of command lines: the script that a shell runs at its start, and the answers to what the shell asks then.
//!
//! The script is that of `clap_complete`. It calls this program with [`VARIABLE`] set and the words of the command line after
//! `--`. Names are looked up at that moment (`names_in_reach.rs`); `completed_values.rs` says which argument takes which.

mod completed_values;
mod names_in_reach;

use std::{
    ffi::OsString,
    io::Write,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::{Args, ValueEnum};
use clap_complete::env::{EnvCompleter, Shells};

use super::render::{self, RunOutputFormat, print};
use crate::error::{ErrorKind, Report};
use completed_values::with_completed_values;
use names_in_reach::{NamesInReach, PersonPlaces};

/// Print a script that lets a shell complete commands, options and names.
///
/// The shell then also completes the names of agents, models, plugins, MCP servers and sessions. To do so it calls this
/// program, which only reads files: no plugin is run, and nothing is sent. The script belongs to this version of the program;
/// print it again after an update.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host completions bash > ~/.local/share/bash-completion/completions/shelly-host
  shelly-host completions zsh > ~/.zfunc/_shelly-host
  shelly-host completions fish > ~/.config/fish/completions/shelly-host.fish
  shelly-host completions powershell > shelly-host.ps1

In zsh, ~/.zfunc must be in `fpath` before `compinit`. In PowerShell, run the script in your profile.")]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL", value_enum)]
    shell: CompletionShell,
}

/// A shell for which there is a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompletionShell {
    Bash,
    Zsh,
    Fish,
    #[value(alias = "pwsh")]
    Powershell,
    Elvish,
}

/// The variable with which a script calls this program; its value is the name of the shell.
const VARIABLE: &str = "SHELLY_COMPLETE";

/// The name of the program as a person types it.
const PROGRAM: &str = "shelly-host";

impl CompletionsArgs {
    pub fn execute(self) -> u8 {
        let printed = script(self.shell).and_then(|script| print(&script));
        printed.map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
    }
}

impl CompletionShell {
    const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Powershell => "powershell",
            Self::Elvish => "elvish",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|shell| shell.name() == name)
    }

    fn completer(self) -> Option<&'static dyn EnvCompleter> {
        const SHELLS: Shells<'static> = Shells::builtins();
        SHELLS.0.iter().copied().find(|completer| completer.is(self.name()))
    }

    /// Returns `true` if the shell quotes what it inserts. The others insert it as it is, so that a name such as `$(date)`
    /// would run as a command.
    const fn quotes(self) -> bool {
        matches!(self, Self::Zsh | Self::Fish | Self::Elvish)
    }

    /// Returns `true` for a character of a path that the shell does not treat in a special way within its script.
    fn takes_literally(self, c: char) -> bool {
        // PowerShell separates folders with it, and escapes with a backtick.
        let is_separator = self == Self::Powershell && c == '\\';
        is_plain(c) || is_separator
    }
}

/// Returns the script for a shell.
fn script(shell: CompletionShell) -> Result<String, Report> {
    let failed = |cause: String| Report::new(ErrorKind::Bug, "the script cannot be written").cause(cause);
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_else(|| PROGRAM.into());
    let (program, mut script) = (program_for_script(&called, shell)?, Vec::new());
    let completer = shell.completer().ok_or_else(|| failed(format!("nothing is known of {}", shell.name())))?;
    let written = completer.write_registration(VARIABLE, PROGRAM, PROGRAM, &program, &mut script);
    written.map_err(|error| failed(error.to_string()))?;
    let mut script = String::from_utf8(script).map_err(|error| failed(error.to_string()))?;
    if shell == CompletionShell::Zsh {
        // As a file of `fpath` the script is the function itself at its first call, and must also answer it.
        script.push_str("\n[[ ${funcstack[1]-} != _shelly-host ]] || _clap_dynamic_completer_shelly_host \"$@\"\n");
    }
    Ok(script)
}

/// Returns the program as the script of a shell calls it, from the name by which it was `called` now. A bare name stays, so
/// that the script outlives an update; anything else becomes absolute.
///
/// # Errors
///
/// A [`Report`] if the path has characters that mean something else in the script.
fn program_for_script(called: &Path, shell: CompletionShell) -> Result<String, Report> {
    let is_bare = called.components().count() == 1 && !called.is_absolute();
    let path = if is_bare { Ok(called.to_owned()) } else { std::path::absolute(called) };
    let path = path.unwrap_or_else(|_| called.to_owned()).to_string_lossy().into_owned();
    if path.chars().all(|c| shell.takes_literally(c)) {
        return Ok(path);
    }
    Err(Report::new(
        ErrorKind::Usage,
        format!("a completion script cannot call the program at {}", render::name(&path)),
    )
    .cause("its path has blanks or other characters that shells treat specially")
    .hint(format!("add its folder to PATH and call it by name: {PROGRAM} completions {}", shell.name())))
}

/// Returns `true` for a character that no shell treats in a special way within a word.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "_./:=@%+,-~".contains(c)
}

/// Answers a shell that asks for completions, as the scripts do. Returns `None` if the process was started for anything
/// else. `program` makes the parser of the command line. Nothing goes to standard error, which the shell would show within the command line.
pub fn answer_shell(program: fn() -> clap::Command) -> Option<ExitCode> {
    let name = std::env::var(VARIABLE).ok()?;
    let mut arguments = std::env::args_os().skip(1);
    // Without the mark somebody has exported the variable: the command line is for the program itself.
    if arguments.next()? != "--" {
        return None;
    }
    let shell = CompletionShell::of_name(&name)?;
    panic::set_hook(Box::new(|_| {}));
    let answer = panic::catch_unwind(AssertUnwindSafe(|| answer(program(), shell, arguments.collect(), Path::new(""))));
    let is_written = answer.ok().flatten().is_some_and(|answer| {
        let mut out = std::io::stdout().lock();
        out.write_all(&answer).and_then(|()| out.flush()).is_ok()
    });
    // After a failure bash completes the names of files.
    Some(if is_written { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns what a shell reads as completions for a command line whose first word is the program. Configs are looked for in
/// `folder`; an empty path is the current folder.
fn answer(program: clap::Command, shell: CompletionShell, words: Vec<OsString>, folder: &Path) -> Option<Vec<u8>> {
    let names = Arc::new(NamesInReach::new(&words, folder, PersonPlaces::of_environment()));
    let mut command = with_completed_values(program, &names, shell.quotes());
    let mut answer = Vec::new();
    let here = std::env::current_dir().ok();
    shell.completer()?.write_complete(&mut command, words, here.as_deref(), &mut answer).ok()?;
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_has_a_script_that_calls_this_program() {
        for shell in CompletionShell::value_variants() {
            let script = script(*shell).unwrap_or_else(|report| panic!("{report}"));
            assert!(script.contains(VARIABLE) && script.contains(shell.name()), "{script}");
            assert_eq!(CompletionShell::of_name(shell.name()), Some(*shell));
        }
        assert_eq!(CompletionShell::of_name("tcsh"), None);
    }

    #[test]
    fn script_calls_a_bare_name_or_an_absolute_path() {
        let program = |called: &str| program_for_script(Path::new(called), CompletionShell::Bash);
        assert_eq!(program("shelly-host").unwrap(), "shelly-host");
        assert_eq!(program("/opt/x/shelly-host").unwrap(), "/opt/x/shelly-host");
        let below = program("target/shelly-host").unwrap();
        assert!(below.ends_with("/target/shelly-host") && Path::new(&below).is_absolute(), "{below}");
        for odd in ["/my programs/shelly-host", "/a'b/shelly-host", "/$(date)/shelly-host", r"/a\b/shelly-host"] {
            let report = program(odd).unwrap_err();
            assert!(report.hint.is_some_and(|hint| hint.contains("PATH")), "{odd}");
        }
    }

    #[test]
    fn powershell_script_calls_a_path_of_windows() {
        let powershell = CompletionShell::Powershell;
        assert_eq!(program_for_script(Path::new(r"/C:\x\shelly-host"), powershell).unwrap(), r"/C:\x\shelly-host");
        for odd in [r"/C:\my programs\shelly-host", r"/C:\$x\shelly-host", r"/C:\a`b\shelly-host"] {
            assert!(program_for_script(Path::new(odd), powershell).is_err(), "{odd}");
        }
    }
}
