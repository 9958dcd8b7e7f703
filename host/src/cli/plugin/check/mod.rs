//! `shelly-host plugin check`: the facts about a plugin that a reviewer needs, and findings that say what to do.
//!
//! `check_subject.rs` finds the plugin, `measured_plugin.rs` starts it, `check_facts.rs` prints the facts, and
//! `review_findings.rs` has the findings, which use `known_tools.rs`. `rebuilt_project.rs` is for `--rebuild`. Findings have
//! the type of those of `doctor`.

mod check_facts;
mod check_subject;
mod known_tools;
mod measured_plugin;
mod rebuilt_project;
mod review_findings;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use serde_json::{Value, json};

use self::{
    check_facts::CheckFacts,
    check_subject::CheckSubject,
    measured_plugin::MeasuredPlugin,
    rebuilt_project::finding_of_rebuild,
    review_findings::{finding_of_manifests, findings_of_review, findings_of_tools},
};
use super::named_plugin::named_package;
use crate::{
    cli::{
        command_runtime::runtime,
        doctor::{
            doctor_output::{finding_as_text, verdict},
            finding::{DoctorFinding, DoctorStatus, UnnamedFinding},
        },
        host_environment::compiling,
        render::{CliOutputFormat, json_line, print, print_prose},
    },
    error::{ErrorKind, Report},
    plugin::{ComponentCompiler, PluginError, PluginReview},
};

/// The version of the JSON object. It changes when a field changes its meaning or goes; new fields may come at any time.
const FORMAT: u32 = 1;

/// Check a plugin as a reviewer does: what it is, what it can reach, and what it tells a model.
///
/// Compares the imports of the component with plugin.toml, and reads the names, descriptions and schemas of its tools: for names
/// of other tools, and for orders to a model. Starts the plugin twice in its sandbox, without any grant, and measures it. Each
/// finding is a problem or a note and says what to do.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host plugin check
  shelly-host plugin check build/dice --output json
  shelly-host plugin check . --rebuild

Exit codes: 1 if at least one problem was found, 2 for wrong usage, 3 if the plugin's files cannot be read or built.")]
pub struct PluginCheckArgs {
    /// A plugin's folder, a project's folder, a component file, or the id of a listed plugin (default: the project in the
    /// current folder).
    plugin: Option<PathBuf>,
    /// The config in which the id is looked up (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders in which the id is looked up; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// Build the project twice from nothing and compare the components.
    ///
    /// This runs the toolchain and the code of the project that builds it: build only what you trust.
    #[arg(long)]
    rebuild: bool,
    /// Rebuild it optimised, as `plugin build --release` does.
    #[arg(long, requires = "rebuild")]
    release: bool,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
}

/// A plugin that was checked.
struct CheckedPlugin {
    /// `None` if the component cannot be used at all.
    review: Option<PluginReview>,
    measured: Option<MeasuredPlugin>,
    findings: Vec<DoctorFinding>,
}

impl PluginCheckArgs {
    /// Checks the plugin and prints the findings. Returns the exit code.
    pub(super) fn execute(&self) -> Result<u8, Report> {
        let subject = CheckSubject::find(self.plugin.as_deref())?;
        if self.rebuild && subject.project.is_none() {
            let message = "--rebuild needs a project, and this is a plugin without its sources";
            return Err(Report::new(ErrorKind::Usage, message).hint("name the folder of the project"));
        }
        let checked = runtime()?.block_on(self.checked(&subject))?;
        let has_problem = checked.findings.iter().any(|finding| finding.status == DoctorStatus::Problem);
        match self.output {
            CliOutputFormat::Text => checked.show()?,
            CliOutputFormat::Json => print(&json_line(&checked.to_json()))?,
        }
        Ok(if has_problem { ErrorKind::Run.exit_code() } else { 0 })
    }

    async fn checked(&self, subject: &CheckSubject) -> Result<CheckedPlugin, Report> {
        let review = match self.review(&subject.plugin).await? {
            Ok(review) => review,
            Err(error) => {
                let findings = vec![UnnamedFinding::of_report(&error.report()).of_check("component")];
                return Ok(CheckedPlugin { review: None, measured: None, findings });
            }
        };
        let mut findings = findings_of_review(&review);
        let mut measured = None;
        if let Ok(package) = &review.package {
            match MeasuredPlugin::measure(package).await? {
                Ok(plugin) => {
                    findings.extend(findings_of_tools(&review.manifest.id, &plugin.tools));
                    measured = Some(plugin);
                }
                Err(error) => findings.push(UnnamedFinding::of_report(&error.report()).of_check("start")),
            }
        }
        if let Some((folder, manifest)) = &subject.project {
            findings.extend(finding_of_manifests(manifest, &review.manifest));
            if self.rebuild {
                let finding = finding_of_rebuild(folder, self.release, review.digest).await?;
                findings.push(finding.of_check("rebuild"));
            }
        }
        Ok(CheckedPlugin { review: Some(review), measured, findings })
    }

    /// Reads the plugin at this path, or the one with this id. The inner error is a component that cannot be used: it
    /// becomes a finding.
    async fn review(&self, plugin: &Path) -> Result<Result<PluginReview, PluginError>, Report> {
        let compiler = Arc::new(ComponentCompiler::from(compiling()));
        if !plugin.exists() {
            let package = named_package(plugin, self.config.as_ref(), &self.plugins, &compiler).await?;
            return Ok(Ok(PluginReview::from(&package)));
        }
        match PluginReview::open(plugin, &compiler).await {
            Err(error @ (PluginError::NoManifest { .. } | PluginError::Unreadable { .. })) => Err(error.report()),
            reviewed => Ok(reviewed),
        }
    }
}

impl CheckedPlugin {
    fn facts(&self) -> Option<CheckFacts<'_>> {
        let measured = self.measured.as_ref();
        self.review.as_ref().map(|review| CheckFacts { review, measured })
    }

    /// Prints the facts, then the findings, then how many there are.
    fn show(&self) -> Result<(), Report> {
        if let Some(facts) = self.facts() {
            print(&facts.lines().join("\n"))?;
            print("\n")?;
        }
        self.findings.iter().try_for_each(|finding| print_prose(&finding_as_text(finding)))?;
        print(&verdict(&self.findings, None))
    }

    fn to_json(&self) -> Value {
        let of = |status| self.findings.iter().filter(|finding| finding.status == status).count();
        json!({
            "format": FORMAT,
            "ok": of(DoctorStatus::Problem) == 0,
            "problems": of(DoctorStatus::Problem),
            "notes": of(DoctorStatus::Note),
            "plugin": self.facts().map(|facts| facts.to_json()),
            "findings": self.findings,
        })
    }
}
