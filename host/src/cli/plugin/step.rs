//! `shelly-host plugin step`.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::{
    given_text::file_text,
    trial_args::{TrialArgs, trial_compiler},
    trial_display::{end_trial, event_display},
};
use crate::{
    cli::{
        ask::coloured,
        command_runtime::runtime,
        render::{CliOutputFormat, DIM, PLAIN, indented_json, print, print_coloured, tell, warn},
    },
    error::{Report, count},
    limits,
    plugin::PluginKind,
    trial::{AppModels, StepFixture, StepModels, StepTrial, step, step_kind},
};

/// Call an effect, a middleware or a coordinator once, without an agent or a team.
///
/// The file has the input in YAML or JSON: messages, tools, the phase, the outcome of a run, and so on. Everything in it has a
/// default, and an unknown key is an error. The decision is printed as JSON, in the same form as the input; at a terminal a diff
/// of the conversation follows. Standard error has the plugin's log and the figures, as for `plugin call`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host plugin step trim-tool-results chat.yaml --grant 'powers: [see-messages, see-results, edit-results]'
  shelly-host plugin step probe task.yaml --kind run-middleware
  shelly-host plugin step sliding-window - --model local < chat.yaml

Exit codes: 0 if there is a decision, whatever it is, 1 if the plugin returned an error, 2 for wrong usage or input, 3 if the
plugin cannot be loaded, crashed, timed out or exceeded a limit.")]
pub struct PluginStepArgs {
    /// A plugin's folder, a component file, or the id of a listed plugin.
    plugin: PathBuf,
    /// The file with the input, in YAML or JSON; `-` reads standard input.
    file: PathBuf,
    /// The kind that is called; needed only for a plugin with several such kinds.
    #[arg(long, value_name = "KIND", value_enum)]
    kind: Option<StepKindArg>,
    /// The model of the config that answers if the step asks one. Without it such a step ends with its question.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    #[command(flatten)]
    pub with: TrialArgs,
}

/// A kind of plugin that is called for steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StepKindArg {
    Effect,
    RunMiddleware,
    ModelMiddleware,
    ToolMiddleware,
    Coordinator,
}

impl From<StepKindArg> for PluginKind {
    fn from(kind: StepKindArg) -> Self {
        match kind {
            StepKindArg::Effect => Self::Effect,
            StepKindArg::RunMiddleware => Self::RunMiddleware,
            StepKindArg::ModelMiddleware => Self::ModelMiddleware,
            StepKindArg::ToolMiddleware => Self::ToolMiddleware,
            StepKindArg::Coordinator => Self::Coordinator,
        }
    }
}

impl PluginStepArgs {
    /// Calls the plugin for the step. Returns the exit code.
    pub(super) fn execute(&self) -> Result<u8, Report> {
        let Self { plugin, kind, file, model, with } = self;
        let text = file_text(file, "the input", limits::TRIAL_INPUT_BYTES)?;
        let source = if *file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
        let (loaded, kind, trial) = runtime()?.block_on(async {
            let compiler = trial_compiler();
            let package = with.open(plugin, &compiler).await?;
            let kind = step_kind(&package.manifest, kind.map(PluginKind::from))?;
            let input = StepFixture::parse(kind, &text, &source)?;
            let loaded = with.load(plugin, &package, &compiler, model.as_deref()).await?;
            let models = match model {
                None => None,
                Some(model) => {
                    let (models, notices) = AppModels::new(&loaded.app, model).await?;
                    notices.iter().for_each(|notice| warn(notice));
                    Some(models)
                }
            };
            let models = models.as_ref().map(|models| models as &dyn StepModels);
            let trial = step(&loaded.plugin, input, models, &mut event_display(with.output)).await;
            let trial = trial.map_err(|report| report.in_file(&source))?;
            Ok::<_, Report>((loaded, kind, trial))
        })?;
        if with.output == CliOutputFormat::Text {
            print_decision(&trial)?;
        }
        let mut json = trial.to_json();
        json["kind"] = json!(kind);
        end_trial(with.output, &loaded, &format!("the {kind}"), &trial.record, trial.fault.as_ref(), json)
    }
}

/// Prints the decision, and at a terminal what it changes.
fn print_decision(trial: &StepTrial) -> Result<(), Report> {
    if !trial.asked.is_empty() {
        let queries = count(trial.asked.len() as u64, "query", "queries");
        tell(&format!("{DIM}a model has answered {queries} of the step{PLAIN}\n"));
    }
    if !trial.decision.is_empty() {
        print(&indented_json(&trial.decision))?;
    }
    match &trial.difference {
        Some(difference) if std::io::stdout().is_terminal() => print_coloured(&coloured(difference)),
        _ => Ok(()),
    }
}
