use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::{
    comparison_text, opener, summary,
    trace_output::{print_pieces, write_file, write_temporary_page},
};
use crate::{
    cli::{
        render::{json_safe_line, name, print_coloured, tell, warn},
        session::SessionProjectArgs,
        session_name::named,
    },
    error::Report,
    session::SessionStore,
    trace::{Trace, TraceComparison, TraceError, TraceLines, write_inspect, write_otlp, write_page},
};

/// Show what the runs of a session did, or print it for other programs.
///
/// Without options it prints the tree of runs with their turns, calls, tokens and costs, and what failed. A session records
/// its events while it runs, so a trace needs no preparation. A session of an earlier release is traced from its journal
/// alone, which knows neither plugins nor exact times.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host trace last
  shelly-host trace last --open
  shelly-host trace last --html trace.html
  shelly-host trace 20261122 --format otlp --out trace.json
  shelly-host trace last --diff 20261121")]
pub struct TraceArgs {
    #[command(flatten)]
    project: SessionProjectArgs,
    /// Write a page for a browser to this file, replacing it. It contains everything that the session does.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["open", "format", "diff"])]
    html: Option<PathBuf>,
    /// Write the page to a temporary file that only you can read, and open it in a browser.
    #[arg(long, conflicts_with_all = ["format", "diff"])]
    open: bool,
    /// Print the trace for another program.
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with = "diff")]
    format: Option<TraceFormat>,
    /// With --format, write to this file, replacing it (default: `-`, standard output).
    #[arg(long, value_name = "FILE", requires = "format")]
    out: Option<PathBuf>,
    /// Compare with this session: show where the two part, and what each spent.
    #[arg(long, value_name = "ID")]
    diff: Option<String>,
    /// The session: its name, the beginning of its name, or `last` for the newest.
    #[arg(value_name = "ID")]
    id: String,
}

/// The format of a trace for another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    /// OpenTelemetry: one request for a collector, as JSON.
    Otlp,
    /// Inspect: a log with one sample.
    Inspect,
    /// The events, one JSON object a line.
    Jsonl,
}

impl TraceArgs {
    pub fn execute(&self) -> Result<u8, Report> {
        let (store, id) = self.session(&self.id)?;
        let open = || TraceLines::open(&store, &id);
        if let Some(path) = &self.html {
            let lines = open().map_err(|error| error.report())?;
            write_file(path, "--html", |file| write_page(lines, file))?;
            tell(&format!("wrote {}\n", name(&path.display().to_string())));
        } else if self.open {
            let lines = open().map_err(|error| error.report())?;
            opener::open(&write_temporary_page(|file| write_page(lines, file))?);
        } else if let Some(format) = self.format {
            match self.out.as_deref().filter(|path| *path != Path::new("-")) {
                None => print_pieces(|out| format.write(&store, &id, out))?,
                Some(path) => {
                    write_file(path, "--out", |file| format.write(&store, &id, file))?;
                    tell(&format!("wrote {}\n", name(&path.display().to_string())));
                }
            }
        } else {
            let trace = open().and_then(Trace::read).map_err(|error| error.report())?;
            match &self.diff {
                None => print_coloured(&summary::text(&trace))?,
                Some(other) => {
                    let (store, id) = self.session(other)?;
                    let other = TraceLines::open(&store, &id).and_then(Trace::read).map_err(|error| error.report())?;
                    let comparison = TraceComparison::of(&trace, &other);
                    print_coloured(&comparison_text::text([&trace, &other], &comparison))?;
                    return Ok(u8::from(!comparison.is_same()));
                }
            }
        }
        Ok(0)
    }

    /// Returns the store of a session, and its full name.
    fn session(&self, given: &str) -> Result<(SessionStore, String), Report> {
        let store = self.project.store_with(given)?;
        let id = named(&store, given)?;
        if store.is_in_use(&id) {
            warn("a process writes to this session: the trace ends where it is now");
        }
        Ok((store, id))
    }
}

impl TraceFormat {
    fn write(self, store: &SessionStore, id: &str, mut out: &mut dyn std::io::Write) -> Result<(), TraceError> {
        let open = || TraceLines::open(store, id);
        match self {
            Self::Otlp => write_otlp(open()?, &mut out),
            Self::Inspect => write_inspect(open, &mut out),
            Self::Jsonl => {
                for line in open()? {
                    writeln!(out, "{}", json_safe_line(line?))?;
                }
                Ok(())
            }
        }
    }
}
