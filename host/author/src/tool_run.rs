//! Running a program of a toolchain, with its output passed on line by line.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read},
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

use shelly_core::limits;

use crate::{author_error::AuthorError, build_cancellation::BuildCancellation};

/// The stream that a line was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolStream {
    Output,
    Errors,
}

/// The end of a program.
#[derive(Debug)]
pub(crate) struct ToolExit {
    pub status: ExitStatus,
    /// The last lines of both streams, oldest first.
    pub last: Vec<String>,
}

/// A running program: in the process group of this process, which Ctrl-C at a terminal reaches, or in one that a
/// cancellation kills.
enum RunningTool<'a> {
    Ours(Child),
    Cancellable(&'a BuildCancellation),
}

/// The standard output and the standard error of a program.
type ToolPipes = (Option<ChildStdout>, Option<ChildStderr>);

impl<'a> RunningTool<'a> {
    fn start(command: &mut Command, cancellation: Option<&'a BuildCancellation>) -> io::Result<(Self, ToolPipes)> {
        let pipes = |child: &mut Child| (child.stdout.take(), child.stderr.take());
        match cancellation {
            Some(cancellation) => Ok((Self::Cancellable(cancellation), cancellation.start(command, pipes)?)),
            None => {
                let mut child = command.spawn()?;
                let pipes = pipes(&mut child);
                Ok((Self::Ours(child), pipes))
            }
        }
    }

    fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Ours(child) => child.wait(),
            Self::Cancellable(cancellation) => cancellation.wait(),
        }
    }
}

/// Runs a program to its end. Passes each line to `on_line`, which returns `true` for a line that explains a failure.
///
/// # Errors
///
/// [`AuthorError::NotStarted`], also for a program that `cancellation` has killed. A program that fails is no error; its
/// status says so.
pub(crate) fn run_tool(
    command: &mut Command,
    cancellation: Option<&BuildCancellation>,
    on_line: &mut dyn FnMut(ToolStream, &str) -> bool,
) -> Result<ToolExit, AuthorError> {
    let program = command.get_program().to_owned();
    let not_started = |source| AuthorError::NotStarted { program: program.clone().into(), source };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut running, (stdout, stderr)) = RunningTool::start(command, cancellation).map_err(not_started)?;
    let (sender, lines) = sync_channel(limits::BUILD_LINES_WAITING);
    let mut readers = Vec::new();
    if let Some(stdout) = stdout {
        let sender = sender.clone();
        readers.push(thread::spawn(move || pass_lines(stdout, ToolStream::Output, &sender)));
    }
    if let Some(stderr) = stderr {
        readers.push(thread::spawn(move || pass_lines(stderr, ToolStream::Errors, &sender)));
    }
    let mut last = VecDeque::new();
    for (stream, line) in lines {
        if on_line(stream, &line) {
            if last.len() == limits::BUILD_LINES_KEPT {
                last.pop_front();
            }
            last.push_back(line);
        }
    }
    for reader in readers {
        // A reader ends with its pipe, and never panics.
        let _ = reader.join();
    }
    let status = running.wait().map_err(not_started)?;
    Ok(ToolExit { status, last: last.into() })
}

/// Sends the lines of a pipe until it ends or nobody listens.
fn pass_lines(pipe: impl Read, stream: ToolStream, sender: &SyncSender<(ToolStream, String)>) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        let Ok(part) = pipe.fill_buf() else { return };
        if part.is_empty() {
            if !line.is_empty() {
                // Nobody listens any more.
                let _ = sender.send((stream, text_of(&line)));
            }
            return;
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let taken = &part[..end.unwrap_or(part.len())];
        let room = limits::BUILD_LINE_BYTES.saturating_sub(line.len());
        line.extend_from_slice(&taken[..taken.len().min(room)]);
        let read = taken.len() + usize::from(end.is_some());
        pipe.consume(read);
        if end.is_some() {
            if sender.send((stream, text_of(&line))).is_err() {
                return;
            }
            line.clear();
        }
    }
}

fn text_of(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn run(script: &str) -> (ToolExit, Vec<(ToolStream, String)>) {
        let mut shown = Vec::new();
        let exit = run_tool(Command::new("sh").args(["-c", script]), None, &mut |stream, line| {
            shown.push((stream, line.to_owned()));
            true
        });
        (exit.unwrap(), shown)
    }

    #[test]
    fn lines_of_both_streams_are_passed_on() {
        let (exit, mut shown) = run("echo one; echo two >&2; printf three; exit 3");
        shown.sort_by(|a, b| a.1.cmp(&b.1));
        let texts: Vec<_> = shown.iter().map(|(stream, line)| (*stream, line.as_str())).collect();
        assert_eq!(texts, [(ToolStream::Output, "one"), (ToolStream::Output, "three"), (ToolStream::Errors, "two")]);
        assert_eq!((exit.status.code(), exit.last.len()), (Some(3), 3));
    }

    #[test]
    fn long_line_is_cut_and_old_lines_are_dropped() {
        let (line, kept) = (limits::BUILD_LINE_BYTES, limits::BUILD_LINES_KEPT);
        let (exit, shown) =
            run(&format!("head -c {} /dev/zero | tr '\\0' x; echo; seq 1 {kept}; echo last", line + 10));
        assert_eq!(shown[0].1.len(), line);
        assert_eq!(shown.len(), kept + 2);
        assert_eq!(
            (exit.last.len(), exit.last[0].as_str()),
            (kept, "2"),
            "the long line and the first number are gone"
        );
    }

    #[test]
    fn slow_reader_gets_all_lines() {
        let many = limits::BUILD_LINES_WAITING * 20;
        assert_eq!(run(&format!("seq 1 {many}")).1.len(), many);
    }

    #[test]
    fn missing_program_is_named() {
        let error = run_tool(&mut Command::new("/no/such/program"), None, &mut |_, _| true).unwrap_err();
        assert_eq!(error.to_string(), "cannot start /no/such/program");
    }

    #[test]
    fn cancelled_tool_ends_with_its_descendants() {
        let cancellation = BuildCancellation::default();
        let ending = cancellation.clone();
        let mut shown = Vec::new();
        // The inner shell holds the pipe: without it this test would wait for an hour.
        let script = "sh -c 'echo ready; sleep 3600' & wait";
        let ended = run_tool(Command::new("sh").args(["-c", script]), Some(&cancellation), &mut |_, line| {
            shown.push(line.to_owned());
            ending.cancel();
            true
        });
        let killed = |error: AuthorError| match error {
            AuthorError::NotStarted { source, .. } => source.kind() == io::ErrorKind::Interrupted,
            _ => false,
        };
        assert!(killed(ended.unwrap_err()) && shown == ["ready"], "{shown:?}");
        let next = run_tool(Command::new("sh").args(["-c", "echo"]), Some(&cancellation), &mut |_, _| true);
        assert!(killed(next.unwrap_err()), "no other program is started");
    }

    #[test]
    fn cancellable_tool_returns_its_own_status() {
        let exit = run_tool(
            Command::new("sh").args(["-c", "echo one; exit 3"]),
            Some(&BuildCancellation::default()),
            &mut |_, _| true,
        );
        let exit = exit.unwrap();
        assert_eq!((exit.status.code(), exit.last), (Some(3), vec!["one".to_owned()]));
    }
}
