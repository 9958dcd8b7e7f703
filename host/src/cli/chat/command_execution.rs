//! The commands of a chat; `session_commands.rs` has those that act on sessions, `view_commands.rs` those that change what is shown.

use std::{io::Write, sync::Arc};

use super::{
    chat_loop::ChatLoop,
    chat_session::ChatSession,
    running_step::RunningStep,
    session_state_text::tasks_text,
    slash_command::{COMMANDS, SlashCommand},
};
use crate::{
    approval::PermissionSubject,
    cli::{
        doctor::doctor_text,
        live::{activity_rows, amount_in_words, elapsed_in_words},
        render::{BOLD, DIM, PLAIN, cost, name},
        trust,
    },
    error::{ErrorKind, Report},
    limits,
};

/// The keys that a person may not know.
const KEYS: [(&str, &str); 9] = [
    ("Enter", "sends the message; while the agent works, the message waits"),
    ("Alt+Enter, Ctrl+J, \\ Enter", "adds a line"),
    ("Up, Down, Ctrl+R", "shows and searches earlier messages"),
    ("Esc, Ctrl+C", "interrupts the agent; twice without one, leaves"),
    ("Tab", "completes commands, names after them, and the paths of files"),
    ("Ctrl+O", "shows the tool calls of the last answer in full; again for the answer before"),
    ("Ctrl+X Ctrl+E", "opens the text in your editor"),
    ("@path", "attaches a file to the message"),
    ("!command, !!command", "runs a command; !! gives its output to the agent, too"),
];

impl<W: Write> ChatLoop<W> {
    /// Executes a command. Returns the exit code if the person leaves.
    pub(super) fn execute(&mut self, command: SlashCommand, argument: &str) -> Option<u8> {
        let done = match command {
            SlashCommand::Quit => return Some(0),
            SlashCommand::Help => self.help(),
            SlashCommand::Model => self.model(argument),
            SlashCommand::Agent => self.agent(argument),
            SlashCommand::Agents => self.agents(),
            SlashCommand::Message => self.message(argument),
            SlashCommand::Stop => self.stop_agent(argument),
            SlashCommand::Focus => self.focus(argument),
            SlashCommand::Theme => self.theme(argument),
            SlashCommand::Tools => Ok(self.facts.tools_text()),
            SlashCommand::Plugins => Ok(self.facts.plugins_text()),
            SlashCommand::Skills => Ok(self.facts.skills_text()),
            SlashCommand::Mcp => self.servers(),
            SlashCommand::Permissions => self.permissions(),
            SlashCommand::Tasks => self.recorded(tasks_text),
            SlashCommand::Board => self.board(argument),
            SlashCommand::Doctor => self.doctor(argument),
            SlashCommand::Cost => Ok(self.cost()),
            SlashCommand::Context => Ok(self.facts.context_text(&self.session.chat)),
            SlashCommand::Compact => self.compact(argument),
            SlashCommand::Rewind => self.rewind(argument),
            SlashCommand::Clear => {
                self.enter_session(ChatSession::new());
                Ok(format!("{DIM}a new session begins with your next message{PLAIN}"))
            }
            SlashCommand::Undo => self.undo(),
            SlashCommand::Fork => self.fork(),
            SlashCommand::Sessions => self.sessions(),
            SlashCommand::Resume => self.resume(argument),
            SlashCommand::Export => self.export(argument),
        };
        match done {
            Ok(text) if text.is_empty() => {}
            Ok(text) => self.screen.print(&format!("{}\n\n", text.trim_end_matches('\n'))),
            Err(report) => self.fail(&report),
        }
        None
    }

    fn help(&self) -> Result<String, Report> {
        let keys = KEYS.iter().map(|(key, effect)| ((*key).to_owned(), *effect));
        let commands = COMMANDS.iter().map(|known| {
            let mark = if known.is_immediate { "*" } else { "" };
            (format!("/{}{mark} {}", known.name, known.argument), known.summary)
        });
        let rows: Vec<_> = keys.chain(commands).collect();
        let width = rows.iter().map(|(form, _)| form.chars().count()).max().unwrap_or(0);
        let lines = rows.iter().map(|(form, effect)| format!("  {form:width$}  {effect}\n"));
        let own = commands_line("of this project", self.commands.names());
        let prompts = commands_line("of MCP servers", &self.prompts.commands());
        let marked =
            format!("{DIM}  * at once, also while the agent works; other commands wait like messages{PLAIN}\n");
        Ok(format!("{}{marked}{own}{prompts}", lines.collect::<String>()))
    }

    fn model(&mut self, argument: &str) -> Result<String, Report> {
        if !argument.is_empty() {
            self.start_selection(self.args.agent.clone(), Some(argument.to_owned()));
            return Ok(String::new());
        }
        let known = self.app.config.providers.iter().map(|provider| format!("  {}\n", name(&provider.name)));
        let known: String = known.collect();
        let how = if known.is_empty() {
            "the config names no models; /model NAME takes a vendor's name for one"
        } else {
            "/model NAME uses another one"
        };
        Ok(format!("{BOLD}{}{PLAIN}\n{known}{DIM}{how}{PLAIN}", name(&self.facts.model)))
    }

    fn agent(&mut self, argument: &str) -> Result<String, Report> {
        if argument.is_empty() {
            return Ok(format!("{BOLD}{}{PLAIN}\n{DIM}/agent NAME uses another one{PLAIN}", name(&self.facts.agent)));
        }
        self.start_selection(Some(argument.to_owned()), self.args.model.clone());
        Ok(String::new())
    }

    fn agents(&self) -> Result<String, Report> {
        let lines = self.app.config.runners().map(|runner| {
            let own = runner.own();
            let mark = if *own.name == *self.facts.agent { "*" } else { " " };
            format!("{mark} {}  {DIM}{} {}{PLAIN}\n", name(&own.name), own.word(), name(&own.description))
        });
        let lines: String = lines.collect();
        let lines = if lines.is_empty() { format!("* {}\n", name(&self.facts.agent)) } else { lines };
        Ok(format!("{lines}{}", self.working_text()))
    }

    /// Formats the agents at work with what each does; empty if none works.
    fn working_text(&self) -> String {
        let RunningStep::Message { run, .. } = &self.step else { return String::new() };
        if run.working().is_empty() {
            return String::new();
        }
        let rows = activity_rows(self.screen.activity(), tokio::time::Instant::now(), limits::CHAT_LIST_ROWS);
        let rows = rows.iter().map(|row| {
            let (indent, elapsed) = ("  ".repeat(row.depth), elapsed_in_words(row.elapsed));
            format!("  {indent}{}  {DIM}{} {elapsed}{PLAIN}\n", row.subject, row.detail)
        });
        let how = "/message NAME TEXT gives one a message, /focus NAME shows it, /stop NAME stops it";
        format!("{BOLD}at work{PLAIN}\n{}{DIM}{how}{PLAIN}", rows.collect::<String>())
    }

    /// Returns the run at work.
    pub(super) fn run_at_work(&self) -> Result<&super::message_run::MessageRun, Report> {
        match &self.step {
            RunningStep::Message { run, .. } => Ok(run),
            _ => Err(Report::new(ErrorKind::Usage, "no agent works now").hint("send a message first")),
        }
    }

    fn message(&self, argument: &str) -> Result<String, Report> {
        let Some((to, text)) = argument.split_once(char::is_whitespace) else {
            return Err(Report::new(ErrorKind::Usage, "no agent or no message is named")
                .hint("name both: /message NAME TEXT; /agents lists the agents at work"));
        };
        let run = self.run_at_work()?;
        let cannot = |error| {
            Report::new(ErrorKind::Usage, format!("cannot give {} a message", name(to)))
                .cause(error)
                .hint(at_work(&run.working()))
        };
        run.send(to, text.trim()).map_err(cannot)?;
        Ok(format!("{DIM}{} reads it before its next turn{PLAIN}", name(to)))
    }

    fn stop_agent(&self, argument: &str) -> Result<String, Report> {
        if argument.is_empty() {
            return Err(
                Report::new(ErrorKind::Usage, "no agent is named").hint("name it: /stop NAME; Esc stops all that work")
            );
        }
        let run = self.run_at_work()?;
        if run.cancel(argument) {
            return Ok(format!("{DIM}{} is stopped{PLAIN}", name(argument)));
        }
        Err(Report::new(ErrorKind::Usage, format!("{} does not work now", name(argument)))
            .hint(at_work(&run.working())))
    }

    fn servers(&mut self) -> Result<String, Report> {
        if self.app.servers().is_empty() {
            return Ok("the config has no MCP server; add one under `mcp_servers`".into());
        }
        let (app, prompts) = (Arc::clone(&self.app), Arc::clone(&self.prompts));
        let task = tokio::spawn(async move { Ok(prompts.servers_text(&app).await) });
        self.begin(RunningStep::Text { task, typed: "/mcp" });
        Ok(String::new())
    }

    fn doctor(&mut self, argument: &str) -> Result<String, Report> {
        let is_offline = match argument {
            "" => false,
            "offline" => true,
            other => {
                return Err(Report::new(ErrorKind::Usage, format!("`{}` is no way to check", name(other)))
                    .hint("type /doctor, or /doctor offline, which asks no model"));
            }
        };
        let (config, plugins) = (self.args.config.clone(), self.args.plugins.clone());
        // The checks wait for processes and servers on a runtime of their own. An interruption does not wait for them.
        let checks = tokio::task::spawn_blocking(move || doctor_text(config, plugins, is_offline));
        let text =
            async move { checks.await.unwrap_or_else(|error| Err(Report::new(ErrorKind::Bug, error.to_string()))) };
        self.begin(RunningStep::Text { task: tokio::spawn(text), typed: "/doctor" });
        Ok(String::new())
    }

    fn permissions(&self) -> Result<String, Report> {
        let kept = trust::store().of(&self.app.config.root).map_err(|error| error.report())?;
        let is_kept = |subject: &PermissionSubject| match subject {
            PermissionSubject::Tool { agent, origin, name, .. } => {
                kept.tools.iter().any(|tool| tool.agent == *agent && tool.origin == *origin && tool.name == *name)
            }
            _ => false,
        };
        let line = |subject: &PermissionSubject| {
            let who = match subject {
                PermissionSubject::Tool { agent, .. }
                | PermissionSubject::Topic { agent, .. }
                | PermissionSubject::Change { agent, .. } => name(agent),
                _ => "every agent".into(),
            };
            let until = if is_kept(subject) { "in this project" } else { "until you leave" };
            format!("  {who} may {}, {until}\n", name(&subject.to_string()))
        };
        let trusted = self.app.broker.trusted();
        let more = trusted.len().saturating_sub(limits::CHAT_LIST_ROWS);
        let allowed: String = trusted.iter().take(limits::CHAT_LIST_ROWS).map(line).collect();
        let allowed = match allowed.is_empty() {
            true => "  nothing yet\n".into(),
            false if more > 0 => format!("{allowed}  and {more} more\n"),
            false => allowed,
        };
        let asked = match &self.dialog {
            Some(_) => "what is allowed in this project is withdrawn with: shelly-host config trust --forget",
            None => "you are not asked: the option --approve decides",
        };
        Ok(format!(
            "{BOLD}grants{PLAIN}\n{}{BOLD}allowed from now on{PLAIN}\n{allowed}{DIM}{asked}{PLAIN}",
            self.facts.grants_text()
        ))
    }

    fn cost(&self) -> String {
        let ledger = &self.session.ledger;
        let line = |of: &str, tally: &crate::model::UsageTally| {
            let usage = tally.usage;
            format!(
                "  {of}: {} tokens in {} requests, cost {}\n",
                amount_in_words(usage.total()),
                tally.completions,
                cost(tally)
            )
        };
        let total = ledger.total();
        if total.completions == 0 {
            return "nothing was spent in this session yet".into();
        }
        let agents: String = ledger.agents().map(|(agent, tally)| line(&name(agent), tally)).collect();
        format!("{agents}{}", line("together", &total))
    }
}

/// Formats commands on one line, after the word for where they are from; empty if there are none.
fn commands_line(from: &str, commands: &[String]) -> String {
    if commands.is_empty() {
        return String::new();
    }
    let shown: Vec<_> =
        commands.iter().take(limits::CHAT_LIST_ROWS).map(|command| format!("/{}", name(command))).collect();
    let more = match commands.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("  {from}: {}{more}\n", shown.join(" "))
}

/// Formats the names of the agents at work, as a hint.
pub(super) fn at_work(working: &[Arc<str>]) -> String {
    match working.is_empty() {
        true => "no agent works now".into(),
        false => format!("at work: {}", working.iter().map(|agent| name(agent)).collect::<Vec<_>>().join(", ")),
    }
}
