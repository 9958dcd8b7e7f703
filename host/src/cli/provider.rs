use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::{
    ask,
    command_runtime::runtime,
    config_path::read_config,
    host_environment::{compiling, environment, plugin_dirs},
    render::{self, CliOutputFormat, json_line, name, one_line, print, tell},
    trust,
};
use crate::{
    app::{App, ModelProbe, how_to_mend},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    chat::{Message, Role},
    config::ProviderKind,
    error::{ErrorKind, Report},
    model::StopReason,
};

#[derive(Subcommand)]
pub enum ProviderCommand {
    /// Send each model one short question, and check that it answers.
    ///
    /// The request is real: it uses the key, headers and proxy of the config, and is billed. Exit code 4: a model did not
    /// answer.
    Check {
        /// Names of models in the config (default: all of them, or the model that a run without a config would use).
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// The config file (default: .shelly/config.yaml or shelly.yaml).
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A directory of plugin folders; repeatable.
        #[arg(long, value_name = "DIR")]
        plugins: Vec<PathBuf>,
        /// Trust the project's config and permissions for this command without asking; see shelly-host config trust.
        #[arg(long)]
        trust: bool,
        /// The output format.
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
        output: CliOutputFormat,
    },
}

impl ProviderCommand {
    pub fn execute(self) -> u8 {
        let Self::Check { names, config, plugins, trust, output } = self;
        check(names, config.as_ref(), &plugins, trust, output)
            .unwrap_or_else(|report| render::failed(&report, output.into()))
    }
}

fn check(
    names: Vec<String>,
    config: Option<&PathBuf>,
    plugins: &[PathBuf],
    is_trusted: bool,
    output: CliOutputFormat,
) -> Result<u8, Report> {
    let is_named = config.is_some();
    let (config, broker) =
        (read_config(config)?, ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default()));
    let app = App::new(config, plugin_dirs(plugins), compiling(), environment(), broker)?;
    let standing = app.standing(&trust::store(), is_named)?;
    let mut wanted: Vec<Option<String>> = names.into_iter().map(Some).collect();
    if wanted.is_empty() {
        wanted = app.model_names().map(|name| Some(name.to_owned())).collect();
    }
    if wanted.is_empty() {
        wanted.push(None);
    }
    runtime()?.block_on(async {
        // The key is sent to the address that the config names.
        trust::admitted(&standing, is_trusted, ask::is_attended()).await?;
        let mut failed = None;
        for model in wanted {
            let probed = app.probe(model.as_deref()).await;
            for warning in probed.iter().flat_map(|probe| &probe.warnings) {
                tell(&format!("{}\n", one_line(warning, 500)));
            }
            let outcome = ProbeOutcome::of(model.as_deref(), probed);
            print(&if output == CliOutputFormat::Json { json_line(&outcome.json) } else { outcome.text() })?;
            failed = failed.or(outcome.failure);
        }
        Ok(failed.map_or(0, ErrorKind::exit_code))
    })
}

/// The outcome of asking a model, for people and as JSON.
pub struct ProbeOutcome {
    /// The model, and its answer or the failure.
    pub line: String,
    /// The same without the text of the answer.
    pub line_without_answer: String,
    /// The next step after a failure.
    pub hint: Option<String>,
    json: serde_json::Value,
    /// The kind of the failure; `None` if the model answered.
    pub failure: Option<ErrorKind>,
}

impl ProbeOutcome {
    /// Formats the result of asking the model `wanted`.
    pub fn of(wanted: Option<&str>, probed: Result<ModelProbe, Report>) -> Self {
        let probe = match probed {
            Ok(probe) => probe,
            Err(report) => {
                let causes: Vec<_> =
                    std::iter::once(report.message.as_str()).chain(report.causes.iter().map(String::as_str)).collect();
                return Self::failed(wanted.unwrap_or("a model"), &causes.join(": "), report.hint, report.kind);
            }
        };
        let ModelProbe { name: called, model, source, kind, answer, took, .. } = probe;
        let (completion, cost) = match answer {
            Ok(answer) => answer,
            Err(fault) => {
                let hint = how_to_mend(&fault, &source, kind == ProviderKind::Plugin);
                return Self::failed(&called, &fault.to_string(), Some(hint), ErrorKind::Provider);
            }
        };
        let usage = completion.usage;
        let (input, output) = (usage.total() - usage.output_tokens, usage.output_tokens);
        let says = Message { sender: String::new(), role: Role::Assistant, parts: completion.parts, meta: vec![] };
        let (says, answer) = match says.text_content().trim() {
            "" if completion.stop == StopReason::MaxTokens => ("; no text before the token limit", String::new()),
            "" => ("; no text", String::new()),
            text => ("", format!("; answer: {}", one_line(text, 60))),
        };
        let price = cost.map_or(String::new(), |cost| format!(", {cost}"));
        let time = humantime::format_duration(std::time::Duration::from_millis(took.as_millis() as u64));
        let start = format!("{}: {} answered in {time}{says}", name(&called), name(&completion.model));
        let end = format!("({input} tokens in, {output} out{price})");
        let json = json!({
            "name": called, "ok": true, "model": model, "answered": completion.model, "stop": completion.stop,
            "usage": usage, "cost_usd": cost, "duration_ms": took.as_millis() as u64,
        });
        let (line, line_without_answer) = (format!("{start}{answer} {end}"), format!("{start} {end}"));
        Self { line, line_without_answer, hint: None, json, failure: None }
    }

    fn failed(model: &str, message: &str, hint: Option<String>, kind: ErrorKind) -> Self {
        let line = format!("{}: {}", name(model), one_line(message, 1_000));
        let json = json!({"name": model, "ok": false, "error": message, "hint": hint});
        Self { line_without_answer: line.clone(), line, hint, json, failure: Some(kind) }
    }

    /// Formats the outcome as the lines of `provider check`.
    fn text(&self) -> String {
        let hint = self.hint.as_ref().map_or(String::new(), |hint| format!("\n        hint: {}", one_line(hint, 500)));
        let word = if self.failure.is_none() { "ok" } else { "failed" };
        format!("{word:7} {}{hint}", self.line)
    }
}
