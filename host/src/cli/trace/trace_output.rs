//! Destinations of a trace, which is written piece by piece.

use std::{
    fs::File,
    io::{self, BufWriter, ErrorKind as IoErrorKind, Write},
    path::{Path, PathBuf},
};

use crate::{
    cli::{
        render::{json_safe_line, name, not_printed},
        stdout,
    },
    error::{ErrorKind, Report, why_unreadable},
    trace::TraceError,
};

/// Prints what `write` writes. Characters that act on a terminal are escaped, as JSON does. A closed pipe is no error: its
/// reader wants no more.
pub fn print_pieces(write: impl FnOnce(&mut dyn Write) -> Result<(), TraceError>) -> Result<(), Report> {
    if stdout::was_closed() {
        return Err(not_printed("standard output was closed when the program was started"));
    }
    let mut out = SafeJsonWriter { out: BufWriter::new(io::stdout().lock()), line: Vec::new() };
    match write(&mut out).and_then(|()| Ok(out.flush()?)) {
        Err(TraceError::Write(error)) if error.kind() == IoErrorKind::BrokenPipe => Ok(()),
        Err(TraceError::Write(error)) => Err(not_printed(error)),
        written => written.map_err(|error| error.report()),
    }
}

/// Writes a file that only its owner can read, in place of an existing one. `option` is the one that named it.
pub fn write_file(
    path: &Path,
    option: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), TraceError>,
) -> Result<(), Report> {
    let failed = |cause: String| {
        Report::new(ErrorKind::Usage, format!("cannot write {}", name(&path.display().to_string())))
            .cause(cause)
            .hint(format!("name another file with {option}"))
    };
    let because = |error: io::Error| failed(why_unreadable(&error));
    // A device or a folder would be replaced by a file.
    if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
        return Err(failed("the path exists and is not a regular file".into()));
    }
    let path = std::path::absolute(path).map_err(because)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let temporary = tempfile::Builder::new().prefix(".shelly-").tempfile_in(folder).map_err(because)?;
    let (file, temporary) = temporary.into_parts();
    written(file, write).map_err(|error| match error {
        TraceError::Write(error) => because(error),
        error => error.report(),
    })?;
    temporary.persist(&path).map_err(|error| because(error.error))
}

/// Writes a page to a temporary file that only its owner can read, and that stays after the end of the process.
pub fn write_temporary_page(
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), TraceError>,
) -> Result<PathBuf, Report> {
    let failed = |error: io::Error| {
        Report::new(ErrorKind::Run, "cannot write a temporary file")
            .cause(why_unreadable(&error))
            .hint("name a file with --html")
    };
    let temporary = tempfile::Builder::new().prefix("shelly-trace-").suffix(".html").tempfile().map_err(failed)?;
    let (file, temporary) = temporary.into_parts();
    written(file, write).map_err(|error| match error {
        TraceError::Write(error) => failed(error),
        error => error.report(),
    })?;
    temporary.keep().map_err(|error| failed(error.error))
}

fn written(file: File, write: impl FnOnce(&mut BufWriter<File>) -> Result<(), TraceError>) -> Result<(), TraceError> {
    let mut file = BufWriter::new(file);
    write(&mut file)?;
    Ok(file.flush()?)
}

/// Escapes what acts on a terminal in JSON that is written in lines.
struct SafeJsonWriter<W> {
    out: W,
    /// The incomplete last line.
    line: Vec<u8>,
}

impl<W: Write> Write for SafeJsonWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let rest = self.line.split_off(end + 1);
            let line = std::mem::replace(&mut self.line, rest);
            self.out.write_all(safe(line).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(safe(line).as_bytes())?;
        self.out.flush()
    }
}

fn safe(line: Vec<u8>) -> String {
    json_safe_line(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_json_is_safe_for_a_terminal() {
        let mut out = SafeJsonWriter { out: Vec::new(), line: Vec::new() };
        for piece in ["{\"a\":\"\u{9b}3", "1m é\"}\n", "{\"b\":\"\u{202e}\"", "}"] {
            out.write_all(piece.as_bytes()).unwrap();
        }
        out.flush().unwrap();
        assert_eq!(str::from_utf8(&out.out), Ok("{\"a\":\"\\u009b31m é\"}\n{\"b\":\"\\u202e\"}"));
    }
}
