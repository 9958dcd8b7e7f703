//! `shelly-host plugin call`.

use std::{io::IsTerminal, path::PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::{
    given_text::argument_text,
    trial_args::{TrialArgs, trial_compiler},
    trial_display::{end_trial, event_display},
};
use crate::{
    chat::{Media, ToolResultContent},
    cli::{
        ask::coloured,
        command_runtime::runtime,
        render::{
            CliOutputFormat, DIM, PLAIN, indented_json, name, print, print_coloured, print_for_people, size, tell,
        },
    },
    error::Report,
    limits,
    trial::{ToolTrial, call_tool},
};

/// Call one tool of a plugin in the sandbox, without an agent or a model.
///
/// Prints the result as a model would read it. File changes that the tool proposes are shown as a diff and not made. Standard
/// error has the plugin's log as it is written, and at the end the time, the processor time, the largest memory and the calls of
/// imports. Nothing is granted unless --grant grants it; if something is missing, the message names the --grant that gives it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host plugin call calculator calculate '{\"expression\": \"2^100\"}'
  shelly-host plugin call target/plugins/read-files read_file '{\"path\": \"README.md\"}' --grant 'files: [{path: ., as: .}]'
  shelly-host plugin call fetch fetch_url @arguments.json --grant 'http: [https://example.com]' --output json

Exit codes: 0 if there is a result, 1 if the tool returned an error, 2 for wrong usage or arguments, 3 if the plugin cannot be
loaded, crashed, timed out or exceeded a limit.")]
pub struct PluginCallArgs {
    /// A plugin's folder, a component file, or the id of a listed plugin.
    plugin: PathBuf,
    /// The name of the tool; `plugin inspect` lists them.
    tool: String,
    /// The arguments as a JSON object; `-` reads standard input, `@FILE` a file.
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
    #[command(flatten)]
    pub with: TrialArgs,
}

impl PluginCallArgs {
    /// Calls the tool. Returns the exit code.
    pub(super) fn execute(&self) -> Result<u8, Report> {
        let Self { plugin, tool, arguments, with } = self;
        let arguments = argument_text(arguments, "the arguments", limits::ARGUMENT_BYTES)?;
        let (loaded, trial) = runtime()?.block_on(async {
            let compiler = trial_compiler();
            let package = with.open(plugin, &compiler).await?;
            let loaded = with.load(plugin, &package, &compiler, None).await?;
            let trial = call_tool(&loaded.plugin, tool, &arguments, &mut event_display(with.output)).await?;
            Ok::<_, Report>((loaded, trial))
        })?;
        if with.output == CliOutputFormat::Text {
            print_result(&trial)?;
        }
        let mut json = trial.to_json();
        json["tool"] = json!(tool);
        let what = format!("the tool `{}`", name(tool));
        end_trial(with.output, &loaded, &what, &trial.record, trial.fault.as_ref(), json)
    }
}

/// Prints a result that is no failure, and the proposed changes.
fn print_result(trial: &ToolTrial) -> Result<(), Report> {
    if trial.fault.is_none() {
        trial.result.content.iter().try_for_each(print_content)?;
    }
    if let Some(chars) = trial.shown_chars() {
        tell(&format!("{DIM}a model is shown at most {chars} characters of this at once{PLAIN}\n"));
    }
    match &trial.proposal {
        None => Ok(()),
        Some(proposal) => print_coloured(&format!("proposed, not made:\n{}", coloured(&proposal.description))),
    }
}

fn print_content(content: &ToolResultContent) -> Result<(), Report> {
    match content {
        ToolResultContent::Text(text) => print_for_people(text),
        ToolResultContent::Json(json) => match serde_json::from_str::<Value>(json) {
            Ok(value) if std::io::stdout().is_terminal() => print(&indented_json(&value)),
            _ => print_for_people(json),
        },
        ToolResultContent::Media(media) => print(&media_line(media)),
        ToolResultContent::Other(opaque) => print_for_people(&format!("{} {}", opaque.kind, opaque.json)),
    }
}

/// Describes an attachment by its type, its name and its size.
fn media_line(media: &Media) -> String {
    let shown = media.name.as_deref().map_or(String::new(), |shown| format!(" {}", name(shown)));
    let bytes = u64::try_from(media.bytes()).unwrap_or(u64::MAX);
    format!("[{}{shown}, {}]", name(&media.media_type), size(bytes))
}
