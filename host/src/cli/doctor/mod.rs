//! The command `doctor`: checks of everything that runs need, one after the other, and a report for whoever helps.
//!
//! `checks/` has the table of checks and a file for each subject. A check takes the `DoctorContext` and returns findings; it
//! prints nothing. `doctor_output.rs` formats findings, and `report_bundle.rs` writes the file of `--bundle`.

mod checks;
mod doctor_context;
pub mod doctor_output;
pub mod finding;
mod report_bundle;

use std::path::PathBuf;

use clap::Args;

use super::{
    build_info::BUILD,
    render::{self, CliOutputFormat, print, print_prose},
};
use crate::error::{ErrorKind, Report};
use checks::CHECKS;
use doctor_context::DoctorContext;
use doctor_output::{finding_as_text, findings_as_json, verdict};
use finding::{DoctorFinding, DoctorStatus};
use report_bundle::{check_new, write_bundle};

/// Check everything that runs need, and say how to fix what is missing.
///
/// Each line begins with ok, note or problem. The checks cover the version, the config, its trust, keys, models and local model
/// servers, plugins, MCP servers, the cluster, directories, the sandbox, the terminal and programs. Each model gets one tiny
/// real request, which is billed; --offline leaves it out. For a project that is not trusted, nothing is run or sent. Values
/// of keys are never shown.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host doctor
  shelly-host doctor --offline --output json | jq -r '.findings[] | select(.status == \"problem\") | .message'
  shelly-host doctor --bundle report.txt

Exit code 1: at least one problem was found.")]
pub struct DoctorArgs {
    /// The config file [default: .shelly/config.yaml or shelly.yaml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// Send nothing: do not ask models, local model servers and the servers of the cluster.
    #[arg(long)]
    offline: bool,
    /// Also connect to the MCP servers of the config. Without this option they are only listed.
    #[arg(long, conflicts_with = "offline")]
    start_servers: bool,
    /// Also write a report to attach to a bug report into this file, which must not exist: the findings, the config without
    /// credentials and prompts, the plugins, and the newest session without its texts. Read it before you share it.
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
}

impl DoctorArgs {
    pub fn execute(self) -> u8 {
        let output = self.output.into();
        self.check().unwrap_or_else(|report| render::failed(&report, output))
    }

    /// Runs the checks and prints their findings. Returns the exit code.
    fn check(self) -> Result<u8, Report> {
        let Self { config, plugins, offline, start_servers, bundle, output } = self;
        // Before anything is done: no check is made for a report that is not written.
        bundle.as_deref().map_or(Ok(()), check_new)?;
        let context = DoctorContext::new(config, plugins, offline, start_servers)?;
        let findings = findings(&context, |finding| match output {
            CliOutputFormat::Text => print_prose(&finding_as_text(finding)),
            CliOutputFormat::Json => Ok(()),
        })?;
        if let Some(path) = &bundle {
            write_bundle(path, &context, &findings)?;
        }
        print(&match output {
            CliOutputFormat::Text => verdict(&findings, bundle.as_deref()),
            CliOutputFormat::Json => findings_as_json(&BUILD, &findings, bundle.as_deref()),
        })?;
        let has_problem = findings.iter().any(|finding| finding.status == DoctorStatus::Problem);
        Ok(if has_problem { ErrorKind::Run.exit_code() } else { 0 })
    }
}

/// Makes all checks, and passes each finding to `show` as soon as it is there.
fn findings(
    context: &DoctorContext,
    mut show: impl FnMut(&DoctorFinding) -> Result<(), Report>,
) -> Result<Vec<DoctorFinding>, Report> {
    let mut findings: Vec<DoctorFinding> = Vec::new();
    for check in CHECKS {
        let found = (check.run)(context).into_iter().map(|finding| finding.of_check(check.name));
        // A key that comes from a file or a program is known once a model was asked.
        context.hide_secrets();
        for finding in found {
            show(&finding)?;
            findings.push(finding);
        }
    }
    Ok(findings)
}

/// Makes all checks, and returns what `doctor` prints. It blocks, and must not be called by a task of a runtime.
///
/// # Errors
///
/// A [`Report`] if the checks cannot be made.
pub fn doctor_text(config: Option<PathBuf>, plugins: Vec<PathBuf>, is_offline: bool) -> Result<String, Report> {
    let context = DoctorContext::new(config, plugins, is_offline, false)?;
    let mut text = String::new();
    let findings = findings(&context, |finding| {
        text.push_str(&finding_as_text(finding));
        text.push('\n');
        Ok(())
    })?;
    Ok(text + &verdict(&findings, None))
}
