use std::{collections::HashMap, path::Path};

use clap::Args;

use super::{
    export,
    loaded_transcript::{LoadedTranscript, read},
    session_project_args::SessionProjectArgs,
    steps,
    table::table,
    times::{instant, when},
    transcript_words::{media, outcome, speaker},
};
use crate::{
    chat::{Part, Role, ToolCall, ToolResult},
    cli::{
        command_words::words_of,
        render::{self, CliOutputFormat, RunOutputFormat, escaped, json_line, name, one_line, print},
    },
    error::Report,
    limits,
    model::UsageTally,
    session::{LaunchOptions, RunTranscript, SessionHeader, SessionPart, Transcript, TranscriptMessage},
};

/// Show a session: its conversation, those of its sub-agents, and their usage.
///
/// Of a damaged session, shows the part before the damage and exits with 1.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host session show last
  shelly-host session show --full 20261122 | less
  shelly-host session show --steps last       # the numbers that `session fork --at` takes")]
pub struct SessionShowArgs {
    #[command(flatten)]
    project: SessionProjectArgs,
    /// Also show system prompts, thoughts, complete tool calls and results, and the digests of what the session began with.
    #[arg(long)]
    full: bool,
    /// List the lines of the session's journal instead.
    #[arg(long, conflicts_with = "full")]
    steps: bool,
    /// The output format; `json` contains everything, like `session export`.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
    /// The session: its name, the beginning of its name, or `last` for the newest.
    #[arg(value_name = "ID")]
    id: String,
}

impl SessionShowArgs {
    pub fn execute(&self) -> Result<u8, Report> {
        let store = self.project.store_with(&self.id)?;
        if self.steps {
            return steps::show(&store, &self.id, self.output);
        }
        let read = read(&store, &self.id)?;
        if self.output == CliOutputFormat::Json {
            print(&json_line(&export::document(&read.whole()?)))?;
            return Ok(0);
        }
        print(&page(&read, self.full))?;
        Ok(read.damage.map_or(0, |damage| render::failed(&damage, RunOutputFormat::Text)))
    }
}

/// Formats a session as text.
fn page(read: &LoadedTranscript, full: bool) -> String {
    let LoadedTranscript { id, header, transcript, .. } = read;
    let mut page = TranscriptPage { text: facts(id, header), transcript, full };
    for run in transcript.top() {
        page.text.push('\n');
        page.run(run, 0);
    }
    page.totals();
    page.open();
    if full && !header.parts.is_empty() {
        page.text.push_str(&parts(header));
    }
    page.text
}

/// Formats the facts of a session.
fn facts(id: &str, header: &SessionHeader) -> String {
    let SessionHeader { created, host, agent, model, title, forked_from, follows, options, .. } = header;
    let mut text = String::new();
    let mut fact = |label: &str, value: String| text.push_str(&format!("{label:8} {value}\n"));
    fact("session", name(id));
    fact("title", name(title));
    fact("agent", format!("{}{}", name(agent), on_model(model)));
    fact("created", format!("{} UTC by shelly-host {}", when(*created), name(host)));
    if let Some(fork) = forked_from {
        fact("fork of", format!("{} up to line {}", name(&fork.id), fork.at));
    }
    if let Some(before) = follows {
        fact("follows", name(before));
    }
    if !options.is_empty() {
        let LaunchOptions { config, plugins, model } = options;
        let words = words_of(config.as_deref().map(Path::new), plugins, model.as_deref());
        fact("options", name(&words));
    }
    text
}

/// Lists the agents, plugins and models with which a session was begun, each with its digest.
fn parts(header: &SessionHeader) -> String {
    let row = |part: &SessionPart| {
        let digest = part.digest.to_string();
        let digest = digest.get(..19).unwrap_or(&digest).to_owned();
        [part.kind.word().to_owned(), name(&part.name), digest]
    };
    let head = ["BEGUN WITH", "NAME", "DIGEST"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(header.parts.iter().map(row)).collect();
    format!("\n{}\n", table(&rows))
}

/// Returns the model of a run for a line that names the run; empty for a team, which has none.
fn on_model(model: &str) -> String {
    if model.is_empty() { String::new() } else { format!(" on {}", name(model)) }
}

struct TranscriptPage<'a> {
    text: String,
    transcript: &'a Transcript,
    full: bool,
}

impl TranscriptPage<'_> {
    fn run(&mut self, run: &RunTranscript, deep: usize) {
        let mut of = if run.instance == run.agent { String::new() } else { format!(" ({})", name(&run.agent)) };
        of.push_str(&format!("{}, {}", on_model(&run.model), when(instant(run.began))));
        if let Some(before) = run.continues {
            of.push_str(&format!(", continues run {before}"));
        }
        self.line(deep, &format!("run {}: {}{of}", run.run, name(&run.instance)));
        if self.full {
            self.line(deep, "system");
            self.block(deep + 1, &run.prompt);
        }
        let results = run.results();
        let mut children: Vec<_> = run.children.iter().map(|(call, child)| (call.as_str(), *child)).collect();
        for said in run.said().filter(|said| said.message.role != Role::Tool) {
            self.message(run, said, &results, &mut children, deep);
        }
        for message in run.waiting() {
            self.line(deep, &format!("{}, unread", speaker(message, message.is_note(), false)));
            message.parts.iter().for_each(|part| self.part(part, deep + 1));
        }
        // The calls of these runs are no longer in the conversation.
        for child in children {
            self.child(child.1, deep + 1);
        }
        let end = run.ended.as_ref().map_or_else(|| "is not finished".into(), outcome);
        self.line(deep, &format!("run {} {end}", run.run));
    }

    fn message(
        &mut self,
        run: &RunTranscript,
        said: &TranscriptMessage,
        results: &HashMap<&str, &ToolResult>,
        children: &mut Vec<(&str, u64)>,
        deep: usize,
    ) {
        self.line(deep, &speaker(&said.message, said.note, said.edited));
        for part in &said.message.parts {
            let Part::ToolCall(call) = part else {
                self.part(part, deep + 1);
                continue;
            };
            self.call(call, deep + 1);
            let below: Vec<_> = children.extract_if(.., |(of, _)| *of == call.id).collect();
            for (_, child) in below {
                self.child(child, deep + 2);
            }
            match results.get(&*call.id) {
                Some(result) => self.result(result, deep + 1),
                None if run.has_begun(&call.id) => self.line(deep + 1, "← no result; the call was started"),
                None => self.line(deep + 1, "← no result"),
            }
        }
    }

    fn child(&mut self, run: u64, deep: usize) {
        if let Some(run) = self.transcript.run(run) {
            self.run(run, deep);
        }
    }

    fn part(&mut self, part: &Part, deep: usize) {
        match part {
            Part::Text(text) => self.block(deep, text),
            Part::Media(what) => self.line(deep, &format!("[{}]", name(&media(what)))),
            Part::Thinking(thinking) if self.full => {
                self.line(deep, "[thinks]");
                self.block(deep + 1, &thinking.text);
            }
            Part::Thinking(_) => {}
            Part::ToolCall(call) => self.call(call, deep),
            Part::ToolResult(result) => self.result(result, deep),
            Part::Other(opaque) => self.line(deep, &format!("[{}]", name(&opaque.kind))),
        }
    }

    fn call(&mut self, call: &ToolCall, deep: usize) {
        if self.full {
            self.line(deep, &format!("→ {} {}", name(&call.name), name(&call.id)));
            self.block(deep + 1, &call.arguments);
        } else {
            let arguments = one_line(&call.arguments, limits::SESSION_CALL_CHARS);
            self.line(deep, &format!("→ {} {arguments}", name(&call.name)));
        }
    }

    fn result(&mut self, result: &ToolResult, deep: usize) {
        let (text, most) = (result.text(), limits::SESSION_RESULT_CHARS);
        let failed = if result.is_error { " failed" } else { "" };
        match text.char_indices().nth(most).filter(|_| !self.full) {
            Some((end, _)) => {
                self.line(deep, &format!("←{failed}"));
                self.block(deep + 1, &text[..end]);
                let more = text[end..].chars().count();
                self.line(deep + 1, &format!("… {more} more characters; show them with --full"));
            }
            None if text.lines().count() > 1 => {
                self.line(deep, &format!("←{failed}"));
                self.block(deep + 1, &text);
            }
            None => self.line(deep, &format!("←{failed} {}", escaped(text.trim()))),
        }
    }

    fn totals(&mut self) {
        let ledger = self.transcript.ledger();
        let row = |agent: &str, tally: &UsageTally| {
            let UsageTally { completions, usage, .. } = tally;
            [name(agent), completions.to_string(), usage.total().to_string(), render::cost(tally)]
        };
        let mut rows = vec![["AGENT", "COMPLETIONS", "TOKENS", "COST"].map(str::to_owned)];
        rows.extend(ledger.agents().map(|(agent, tally)| row(agent, tally)));
        match rows.len() {
            1 => return,
            2 => {}
            _ => rows.push(row("(all)", &ledger.total())),
        }
        self.text.push_str(&format!("\n{}\n", table(&rows)));
    }

    /// Lists calls without a result and runs that have not ended.
    fn open(&mut self) {
        let mut lines = Vec::new();
        for run in self.transcript.runs() {
            let who = format!("run {} ({})", run.run, name(&run.instance));
            for call in run.open_calls() {
                let begun = if run.has_begun(&call.id) { "was started and has no result" } else { "has no result" };
                lines.push(format!("  {who}: the call of {} {begun}", name(&call.name)));
            }
            if run.ended.is_none() {
                lines.push(format!("  {who} is not finished"));
            }
        }
        if !lines.is_empty() {
            self.text.push_str(&format!("\nunfinished\n{}\n", lines.join("\n")));
        }
    }

    fn line(&mut self, deep: usize, line: &str) {
        self.text.push_str(&format!("{}{line}\n", "  ".repeat(deep)));
    }

    /// Adds a text of others, indented so that no line of it looks like one of the host.
    fn block(&mut self, deep: usize, text: &str) {
        for line in escaped(text.trim_end()).lines() {
            self.line(deep, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_without_model_shows_no_model() {
        assert_eq!((on_model(""), on_model("m")), (String::new(), " on m".into()));
    }
}
