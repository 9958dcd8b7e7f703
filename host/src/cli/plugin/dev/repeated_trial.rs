//! The trial of a plugin that is repeated after each build.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};

use super::super::{
    given_text::{argument_text, file_text},
    trial_args::TrialArgs,
    trial_display::{event_display, failure, figures_line},
};
use crate::{
    chat::{Message, Part, Role},
    cli::render::{indented_json, name},
    error::{ErrorKind, Fault, Report},
    limits,
    model::Completion,
    plugin::ComponentCompiler,
    trial::{StepFixture, TrialRecord, call_tool, complete, parse_fixture, step, step_kind},
};

/// The trial of a plugin that is repeated after each build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepeatedTrial {
    /// A call of a tool with these arguments.
    Call { tool: String, arguments: String },
    /// A step on the input in a file.
    Step(PathBuf),
    /// A request to a provider from a file.
    Complete(PathBuf),
}

/// The outcome of one trial.
pub struct TrialOutcome {
    /// The result as text.
    pub text: String,
    /// The failure of the plugin, if there is one.
    pub failure: Option<Report>,
    /// The figures on one line.
    pub figures: String,
    /// The outcome as JSON.
    pub json: Value,
}

impl RepeatedTrial {
    /// Returns the trial that the options ask for; `None` if they ask for none. The command line admits one of them.
    ///
    /// # Errors
    ///
    /// A [`Report`] for input from standard input, which can be read only once.
    pub fn of_options(
        call: Option<&[String]>,
        step: Option<&PathBuf>,
        complete: Option<&PathBuf>,
    ) -> Result<Option<Self>, Report> {
        let trial = match (call, step, complete) {
            (Some([tool, arguments, ..]), ..) => Some(Self::Call { tool: tool.clone(), arguments: arguments.clone() }),
            (_, Some(file), _) => Some(Self::Step(file.clone())),
            (_, _, Some(file)) => Some(Self::Complete(file.clone())),
            _ => None,
        };
        let reads_input = match &trial {
            Some(Self::Call { arguments, .. }) => arguments == "-",
            Some(Self::Step(file) | Self::Complete(file)) => file == Path::new("-"),
            None => false,
        };
        match reads_input {
            true => Err(Report::new(ErrorKind::Usage, "a trial that is repeated cannot read standard input")
                .hint("name a file: @FILE for the arguments of --call")),
            false => Ok(trial),
        }
    }

    /// Loads the plugin of a folder with what the options grant it, and makes the trial. Files with inputs are read each time.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the plugin cannot be loaded or the input cannot be used. A failure of the plugin is part of the outcome.
    pub async fn run(
        &self,
        with: &TrialArgs,
        folder: &Path,
        compiler: &Arc<ComponentCompiler>,
    ) -> Result<TrialOutcome, Report> {
        let package = with.open(folder, compiler).await?;
        let loaded = with.load(folder, &package, compiler, None).await?;
        let plugin = &loaded.plugin;
        let mut watch = event_display(with.output);
        match self {
            Self::Call { tool, arguments } => {
                let arguments = argument_text(arguments, "the arguments", limits::ARGUMENT_BYTES)?;
                let trial = call_tool(plugin, tool, &arguments, &mut watch).await?;
                let (what, json) = (format!("the tool `{}`", name(tool)), trial.to_json());
                let text = if trial.fault.is_none() { trial.result.text() } else { String::new() };
                Ok(TrialOutcome::new(text, json, &what, &trial.record, trial.fault.as_ref()))
            }
            Self::Step(file) => {
                let (text, source) = (file_text(file, "the input", limits::TRIAL_INPUT_BYTES)?, shown(file));
                let kind = step_kind(&package.manifest, None)?;
                let input = StepFixture::parse(kind, &text, &source)?;
                let trial = step(plugin, input, None, &mut watch).await.map_err(|report| report.in_file(&source))?;
                let (decision, json) = (indented_json(&trial.decision), trial.to_json());
                Ok(TrialOutcome::new(decision, json, &format!("the {kind}"), &trial.record, trial.fault.as_ref()))
            }
            Self::Complete(file) => {
                let (text, source) = (file_text(file, "the request", limits::TRIAL_INPUT_BYTES)?, shown(file));
                let request = parse_fixture(&text, &source)?;
                let trial = complete(plugin, request, &mut watch).await;
                let trial = trial.map_err(|report| report.in_file(&source))?;
                let text = trial.reply.as_ref().map(reply_text).unwrap_or_default();
                let fault = trial.reply.as_ref().err();
                Ok(TrialOutcome::new(text, trial.to_json(), "the provider", &trial.record, fault))
            }
        }
    }
}

impl TrialOutcome {
    fn new(text: String, json: Value, what: &str, record: &TrialRecord, fault: Option<&Fault>) -> Self {
        let failure = fault.map(|fault| failure(what, record, fault));
        let mut json = json;
        json["ok"] = json!(failure.is_none());
        Self { text, failure, figures: figures_line(&record.figures), json }
    }
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}

/// Returns the text of a reply, then its tool calls, a line each.
fn reply_text(reply: &Completion) -> String {
    let message = Message { parts: reply.parts.clone(), ..Message::text(Role::Assistant, "", "") };
    let mut text = message.text_content();
    for part in &reply.parts {
        if let Part::ToolCall(call) = part {
            text.push_str(&format!("\ncall {} {}", call.name, call.arguments));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_one_trial_that_can_be_repeated() {
        let call = ["roll".to_owned(), "{}".to_owned()];
        let file = PathBuf::from("trial.yaml");
        let of = |call: Option<&[String]>, step, complete| RepeatedTrial::of_options(call, step, complete).unwrap();
        let expected = RepeatedTrial::Call { tool: "roll".into(), arguments: "{}".into() };
        assert_eq!(of(Some(&call), None, None), Some(expected));
        assert_eq!(of(None, Some(&file), None), Some(RepeatedTrial::Step(file.clone())));
        assert_eq!(of(None, None, Some(&file)), Some(RepeatedTrial::Complete(file.clone())));
        assert_eq!(of(None, None, None), None);
        let (input, call) = (PathBuf::from("-"), ["roll".to_owned(), "-".to_owned()]);
        assert!(RepeatedTrial::of_options(None, Some(&input), None).is_err());
        let refused = RepeatedTrial::of_options(Some(&call), None, None).unwrap_err();
        assert!(refused.message.contains("cannot read standard input"), "{refused}");
    }
}
