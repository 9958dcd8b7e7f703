//! `shelly-host plugin complete`.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;

use super::{
    given_text::file_text,
    trial_args::{TrialArgs, trial_compiler},
    trial_display::{end_trial, show_event},
};
use crate::{
    chat::{Message, Part, Role},
    cli::{
        command_runtime::runtime,
        live::PlainReply,
        render::{CliOutputFormat, DIM, PLAIN, escaped, name, print_for_people, tell},
        secrets::ReplyRedactor,
    },
    error::Report,
    event::Event,
    limits,
    model::Completion,
    trial::{RequestFixture, complete, parse_fixture},
};

/// Send one request to a provider plugin, without an agent.
///
/// Prints the text of the reply as it comes, then its tool calls; the reason why the model stopped and the usage are on standard
/// error, with the plugin's log and the figures, as for `plugin call`. A failed request is not repeated.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host plugin complete scripted-model --message Hello --params '{\"replies\": [\"Hi.\"]}'
  shelly-host plugin complete ollama request.yaml --grant 'http: [{url: \"http://localhost:11434\", methods: [POST]}]'

Exit codes: 0 if there is a reply, 1 if the plugin returned an error, 2 for wrong usage or input, 3 if the plugin cannot be
loaded, crashed, timed out or exceeded a limit.")]
pub struct PluginCompleteArgs {
    /// A plugin's folder, a component file, or the id of a listed plugin.
    plugin: PathBuf,
    /// The file with the request, in YAML or JSON; `-` reads standard input.
    #[arg(required_unless_present = "message")]
    file: Option<PathBuf>,
    /// Send this text as the only message, in place of a request from a file.
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    message: Option<String>,
    #[command(flatten)]
    pub with: TrialArgs,
}

impl PluginCompleteArgs {
    /// Sends the request. Returns the exit code.
    pub(super) fn execute(&self) -> Result<u8, Report> {
        let Self { plugin, file, message, with } = self;
        let (request, source) = match message {
            Some(text) => (RequestFixture::of_text(text), "--message".to_owned()),
            None => {
                let file = file.as_deref().unwrap_or(Path::new("-"));
                let text = file_text(file, "the request", limits::TRIAL_INPUT_BYTES)?;
                let source =
                    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
                (parse_fixture(&text, &source)?, source)
            }
        };
        let is_text = with.output == CliOutputFormat::Text;
        let mut printer = ReplyPrinter::new();
        let (loaded, trial) = runtime()?.block_on(async {
            let compiler = trial_compiler();
            let package = with.open(plugin, &compiler).await?;
            let loaded = with.load(plugin, &package, &compiler, None).await?;
            let mut watch = |event: &Event| {
                if is_text {
                    printer.show(event);
                }
            };
            let trial = complete(&loaded.plugin, request, &mut watch).await;
            let trial = trial.map_err(|report| report.in_file(&source))?;
            Ok::<_, Report>((loaded, trial))
        })?;
        if is_text && let Ok(reply) = &trial.reply {
            printer.finish(reply)?;
        }
        let fault = trial.reply.as_ref().err();
        end_trial(with.output, &loaded, "the provider", &trial.record, fault, trial.to_json())
    }
}

/// Prints a reply as it comes.
struct ReplyPrinter {
    redactor: ReplyRedactor,
    text: PlainReply<ReplyOutput>,
}

impl ReplyPrinter {
    fn new() -> Self {
        let output = ReplyOutput { is_terminal: io::stdout().is_terminal() };
        Self { redactor: ReplyRedactor::default(), text: PlainReply::new(output) }
    }

    fn show(&mut self, event: &Event) {
        for event in self.redactor.pass(event) {
            match event {
                Event::ModelDelta { .. } | Event::ModelFailed { .. } => self.text.show(&event),
                event => show_event(&event),
            }
        }
    }

    /// Prints what was not streamed: the text of a provider that streams nothing, tool calls, the reason of the end, and usage.
    fn finish(mut self, reply: &Completion) -> Result<(), Report> {
        let message = Message { parts: reply.parts.clone(), ..Message::text(Role::Assistant, "", "") };
        let (agent, role, message) = ("trial".into(), Role::Assistant, Some(message.into()));
        self.text.show(&Event::MessageAdded { agent, role, message });
        for part in &reply.parts {
            if let Part::ToolCall(call) = part {
                print_for_people(&format!("call {} {}", call.name, call.arguments))?;
            }
        }
        let stop = json!(reply.stop);
        let stop = name(stop.as_str().unwrap_or(&stop.to_string()));
        let usage = reply.usage;
        let (input, output) = (usage.total() - usage.output_tokens.min(usage.total()), usage.output_tokens);
        let model = name(&reply.model);
        tell(&format!("{DIM}stop: {stop}; model: {model}; usage: {input} tokens in, {output} out{PLAIN}\n"));
        Ok(())
    }
}

/// The standard output for the text of a reply, which is escaped at a terminal.
struct ReplyOutput {
    is_terminal: bool,
}

impl Write for ReplyOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.is_terminal, str::from_utf8(bytes)) {
            (true, Ok(text)) => io::stdout().write_all(escaped(text).as_bytes())?,
            _ => io::stdout().write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}
