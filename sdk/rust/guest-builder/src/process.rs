//! Running of another program, with the end of its output kept for errors.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a program to its end. Passes its stderr on line by line. Drops its stdout, because cargo reads the stdout of a
/// build script.
///
/// # Errors
/// Returns the reason why the program could not be started, or its exit status and the last `keep` lines of its stderr.
pub(crate) fn run(command: &mut Command, keep: usize) -> Result<(), String> {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("cannot run {name}: {error}"))?;

    let mut last = VecDeque::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            // A closed stderr must not fail the build.
            let _ = writeln!(std::io::stderr(), "{line}");
            if last.len() == keep {
                last.pop_front();
            }
            last.push_back(line);
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for {name}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    last.push_front(format!("{name} ended with {status}"));
    Err(last.into_iter().collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_command_error_keeps_the_last_stderr_lines() {
        let mut command = Command::new("bash");
        command.args(["-c", "echo out; for i in 1 2 3 4; do echo line $i >&2; done; exit 3"]);
        assert_eq!(run(&mut command, 2), Err("bash ended with exit status: 3\nline 3\nline 4".to_owned()));
    }

    #[test]
    fn missing_program_error_names_the_program() {
        let error = run(&mut Command::new("no-such-program-here"), 2).expect_err("no such program");
        assert!(error.starts_with("cannot run no-such-program-here: "), "{error}");
    }
}
