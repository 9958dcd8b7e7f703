//! Copies sessions between the files of a project and its cluster.

use clap::{Args, ValueEnum};
use serde_json::json;

use super::{loaded_transcript::damaged, session_project_args::SessionProjectArgs};
use crate::{
    cli::{
        render::{CliOutputFormat, json_line, print, tell},
        session_name::named,
    },
    error::{ErrorKind, Report},
};

/// Copy a session between the project's files and the cluster that its config names.
///
/// The copy has the name of the original, which stays and must not be in use. Continue only one of the two: they do not know
/// of each other. The records with which `session undo` takes back changes of files stay on this machine.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host session copy last --to cluster
  shelly-host session copy 20261122 --to local")]
pub struct SessionCopyArgs {
    #[command(flatten)]
    project: SessionProjectArgs,
    /// The place of the copy.
    #[arg(long, value_name = "PLACE", value_enum)]
    to: CopyDestination,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
    /// The session: its name, the beginning of its name, or `last` for the newest.
    #[arg(value_name = "ID")]
    id: String,
}

/// The place of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CopyDestination {
    /// The cluster; the original is a file.
    Cluster,
    /// The project's files; the original is in the cluster.
    Local,
}

impl SessionCopyArgs {
    pub fn execute(&self) -> Result<u8, Report> {
        let local = self.project.local_store()?;
        let cluster = self.project.cluster_store()?.ok_or_else(|| {
            let hint =
                "write cluster: {nats: 'nats://HOST:4222', namespace: NAME} into it, or name another with --config";
            Report::new(ErrorKind::Usage, "the config names no cluster").hint(hint)
        })?;
        let (from, to, word) = match self.to {
            CopyDestination::Cluster => (local, cluster, "cluster"),
            CopyDestination::Local => (cluster, local, "local"),
        };
        let id = named(&from, &self.id)?;
        let id = from.copy_to(&id, &to).map_err(|error| damaged(&id, &error))?;
        match self.output {
            CliOutputFormat::Json => print(&json_line(&json!({ "id": id, "to": word })))?,
            CliOutputFormat::Text => {
                print(&id)?;
                tell("the original stays; continue only one of the two\n");
            }
        }
        Ok(0)
    }
}
