use clap::Subcommand;

use super::{copy, export, lifecycle, list, show, undo};
use crate::cli::{
    render::{self, CliOutputFormat},
    run::SessionResumeArgs,
};

#[derive(Subcommand)]
pub enum SessionCommand {
    Resume(SessionResumeArgs),
    List(list::SessionListArgs),
    Show(show::SessionShowArgs),
    Search(list::SessionSearchArgs),
    Export(export::SessionExportArgs),
    Undo(undo::SessionUndoArgs),
    Fork(lifecycle::SessionForkArgs),
    Copy(copy::SessionCopyArgs),
    Rm(lifecycle::SessionRmArgs),
    Prune(lifecycle::SessionPruneArgs),
}

impl SessionCommand {
    pub fn execute(self) -> u8 {
        let (done, output) = match self {
            Self::Resume(resume) => return resume.execute(),
            Self::List(list) => (list.execute(), list.output),
            Self::Show(show) => (show.execute(), show.output),
            Self::Search(search) => (search.execute(), search.output),
            // No format of `export` has a document for a failure.
            Self::Export(export) => (export.execute(), CliOutputFormat::Text),
            Self::Undo(undo) => (undo.execute(), CliOutputFormat::Text),
            Self::Fork(fork) => (fork.execute(), fork.output),
            Self::Copy(copy) => (copy.execute(), copy.output),
            Self::Rm(rm) => (rm.execute(), rm.output),
            Self::Prune(prune) => (prune.execute(), prune.output),
        };
        done.unwrap_or_else(|report| render::failed(&report, output.into()))
    }
}
