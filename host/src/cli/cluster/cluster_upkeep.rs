//! Removes what is old from a cluster, and makes keys for its content.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use serde_json::json;

use super::{
    cluster_access::ClusterConfigArgs,
    unreadable_entries::{unreadable_json, unreadable_text},
};
use crate::{
    cli::{
        render::{CliOutputFormat, json_line, name, print, size, warn},
        session::age,
    },
    cluster::ContentKey,
    cluster_runs::ClusterPruning,
    error::{Report, count},
};

/// Remove the entries of old runs, and configs, plugins and files that no run needs.
///
/// Runs that wait or are at work stay, and so do sessions: see shelly-host session prune. Configs, plugins and files that
/// were sent within the last seven days stay too.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host cluster prune
  shelly-host cluster prune --older-than 7d --output json")]
pub struct ClusterPruneArgs {
    #[command(flatten)]
    config: ClusterConfigArgs,
    /// Remove runs that ended longer ago than this, such as 30d or 12h.
    #[arg(long, value_name = "AGE", value_parser = age, default_value = "30d")]
    older_than: Duration,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
}

/// Make a key with which the hosts of a cluster encrypt what its server stores.
///
/// The key is written to a new file that only you can read. Copy it to all hosts and name it in their configs:
/// cluster: {encryption: {key: {file: FILE}}}. Whoever loses it loses the sessions of the cluster.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host cluster key keys/content.key")]
pub struct ClusterKeyArgs {
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
    /// The file, which must not exist.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl ClusterPruneArgs {
    pub async fn run(self) -> Result<(), Report> {
        let (_, cluster) = self.config.open()?;
        let ClusterPruning { runs, objects, skipped, unreadable } =
            ClusterPruning::of(&cluster, self.older_than).await?;
        if let Some(text) = unreadable_text(&unreadable) {
            warn(&text);
        }
        if let Some(reason) = &skipped {
            warn(&format!("no config, plugin or file was removed: {}", name(reason)));
        }
        match self.output {
            CliOutputFormat::Json => print(&json_line(&json!({
                "runs": runs, "objects": objects.removed, "freed": objects.bytes, "kept": objects.kept, "skipped": skipped,
                "unreadable": unreadable_json(&unreadable),
            }))),
            CliOutputFormat::Text => print(&format!(
                "removed {} and {} ({})",
                count(runs as u64, "run", "runs"),
                count(objects.removed as u64, "object", "objects"),
                size(objects.bytes)
            )),
        }
    }
}

impl ClusterKeyArgs {
    pub fn run(&self) -> Result<(), Report> {
        let key = ContentKey::create(&self.file).map_err(|error| error.report())?;
        match self.output {
            CliOutputFormat::Json => print(&json_line(&json!({ "key": key.id() }))),
            CliOutputFormat::Text => print(&format!("made the key {}", key.id())),
        }
    }
}
