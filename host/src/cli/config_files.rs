use std::{
    iter,
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{
    config_path::search,
    project_search::{CandidateStatus, ConfigCandidate, ProjectSearch},
    render::{self, CliOutputFormat, RunOutputFormat, json_line, name, print},
    user_config_path::{user_config, user_config_path},
};
use crate::{config::ConfigErrors, error::Report, files};

/// List the files that a config may be read from, in order, and why each is used or not.
///
/// Your user-wide config is read first. The project's config adds to it, and where both name one entry, the project's is
/// used.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host config path
  shelly-host config path --output json")]
pub struct ConfigPathArgs {
    /// The config file that a command would name.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
}

/// The part that a config file plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ConfigRole {
    User,
    Project,
}

/// A file that a config may be read from.
#[derive(Debug, Serialize)]
struct ConfigFile {
    role: ConfigRole,
    /// The path; `None`: no folder for it is known.
    path: Option<String>,
    exists: bool,
    used: bool,
    /// The reason for which it is not used.
    reason: Option<String>,
}

impl ConfigPathArgs {
    pub fn execute(self) -> u8 {
        self.print().map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
    }

    fn print(&self) -> Result<(), Report> {
        let ProjectSearch { candidates, end } = search();
        let named = self.config.as_deref();
        // The named one may be one of those that are looked for.
        let is_named = |path: &Path| named.is_some_and(|named| files::resolved(named) == files::resolved(path));
        let found = candidates.into_iter().filter(|candidate| !is_named(&candidate.path));
        let found = found.map(|candidate| project_file(candidate, named.is_some()));
        let files: Vec<_> = iter::once(user_file()).chain(named.map(named_file)).chain(found).collect();
        match self.output {
            CliOutputFormat::Json => print(&json_line(&json!({ "files": files, "search_ended": end }))),
            CliOutputFormat::Text => {
                let mut lines: Vec<_> = files.iter().map(line).collect();
                lines.extend(end.map(|end| format!("no folder above is searched: {}", name(&end))));
                print(&lines.join("\n"))
            }
        }
    }
}

/// Returns the user-wide config.
fn user_file() -> ConfigFile {
    let role = ConfigRole::User;
    let Some(path) = user_config_path() else {
        let reason = Some("no folder for it is known: set HOME or XDG_CONFIG_HOME".to_owned());
        return ConfigFile { role, path: None, exists: false, used: false, reason };
    };
    let exists = path.symlink_metadata().is_ok();
    let reason = match user_config().map_err(ConfigErrors::first) {
        Err(report) => Some(report.with_hint()),
        Ok(None) => Some(CandidateStatus::Missing.to_string()),
        Ok(Some(_)) => None,
    };
    let (path, used) = (Some(path.display().to_string()), reason.is_none());
    ConfigFile { role, path, exists, used, reason }
}

/// Returns the config that the command line names.
fn named_file(path: &Path) -> ConfigFile {
    let exists = path.exists();
    let reason = (!exists).then(|| CandidateStatus::Missing.to_string());
    let path = Some(path.display().to_string());
    ConfigFile { role: ConfigRole::Project, path, exists, used: exists, reason }
}

fn project_file(candidate: ConfigCandidate, is_named: bool) -> ConfigFile {
    let ConfigCandidate { path, status, .. } = candidate;
    let reason = match status {
        CandidateStatus::Used if is_named => Some("--config names another".to_owned()),
        CandidateStatus::Used => None,
        ref other => Some(other.to_string()),
    };
    let (exists, used) = (status != CandidateStatus::Missing, reason.is_none());
    ConfigFile { role: ConfigRole::Project, path: Some(path.display().to_string()), exists, used, reason }
}

fn line(file: &ConfigFile) -> String {
    let role = match file.role {
        ConfigRole::User => "user-wide",
        ConfigRole::Project => "project",
    };
    let status = match &file.reason {
        None => "used".to_owned(),
        Some(reason) if file.exists => format!("not used: {}", name(reason)),
        Some(reason) => name(reason),
    };
    let path = file.path.as_ref().map_or(String::new(), |path| format!("{}  ", name(path)));
    format!("{role:9}  {path}{status}")
}
