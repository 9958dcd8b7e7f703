//! The commands of a chat.

use std::io::Write;

use super::{
    chat_loop::ChatLoop,
    chat_session::ChatSession,
    slash_command::{COMMANDS, SlashCommand},
};
use crate::{
    app,
    cli::{
        ask::coloured,
        live::amount_in_words,
        render::{BOLD, DIM, PLAIN, cost, name},
        session::{exported_markdown, session_table},
        session_name::named,
        trust,
    },
    error::{ErrorKind, Report},
    files, limits,
};

/// The keys that a person may not know.
const KEYS: [(&str, &str); 7] = [
    ("Enter", "sends the message; while the agent works, the message waits"),
    ("Alt+Enter, Ctrl+J, \\ Enter", "adds a line"),
    ("Up, Down, Ctrl+R", "shows and searches earlier messages"),
    ("Esc, Ctrl+C", "interrupts the agent; twice without one, leaves"),
    ("Tab", "completes commands and the paths of files"),
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
            SlashCommand::Tools => Ok(self.facts.tools_text()),
            SlashCommand::Cost => Ok(self.cost()),
            SlashCommand::Context => Ok(self.facts.context_text(&self.session.chat)),
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
        let commands = COMMANDS.iter().map(|known| (format!("/{} {}", known.name, known.argument), known.summary));
        let rows: Vec<_> = keys.chain(commands).collect();
        let width = rows.iter().map(|(form, _)| form.chars().count()).max().unwrap_or(0);
        let lines = rows.iter().map(|(form, effect)| format!("  {form:width$}  {effect}\n"));
        let own = self.commands.names();
        let own = match own.is_empty() {
            true => String::new(),
            false => format!(
                "  of this project: {}\n",
                own.iter().map(|own| format!("/{own}")).collect::<Vec<_>>().join(" ")
            ),
        };
        Ok(format!("{}{own}", lines.collect::<String>()))
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
        Ok(if lines.is_empty() { format!("* {}", name(&self.facts.agent)) } else { lines })
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

    /// Returns the session, which has begun.
    fn session_id(&self) -> Result<&str, Report> {
        let none = || Report::new(ErrorKind::Usage, "the session begins with the first message");
        self.session.id.as_deref().ok_or_else(none)
    }

    fn undo(&mut self) -> Result<String, Report> {
        let id = self.session_id()?.to_owned();
        let (history, warnings) = app::changed(&self.app.sessions(), &id, trust::own_key());
        let warnings: String = warnings.iter().map(|what| crate::cli::render::warning(what) + "\n").collect();
        let cannot = |cause: String| Report::new(ErrorKind::Run, "cannot undo the newest changes").cause(cause);
        let Some(change) = history.last() else { return Ok(format!("{warnings}this session has no changes to undo")) };
        let change = change.map_err(cannot)?;
        let shown = change.shown().map_err(|error| cannot(error.to_string()))?;
        let text = format!("{warnings}change of `{}`:\n{}", name(change.tool()), coloured(&shown));
        self.ask_to_undo(change);
        Ok(text)
    }

    fn fork(&mut self) -> Result<String, Report> {
        let from = self.session_id()?.to_owned();
        let id = self.app.sessions().fork(&from, None).map_err(|error| error.report())?;
        self.session.id = Some(id.clone());
        Ok(format!("{DIM}from now on in the session {}, a copy of {}{PLAIN}", name(&id), name(&from)))
    }

    fn sessions(&self) -> Result<String, Report> {
        let sessions = self.app.sessions().list(limits::CHAT_SESSIONS_SHOWN).map_err(|error| error.report())?;
        Ok(match sessions.is_empty() {
            true => "there are no sessions in this project yet".into(),
            false => format!(
                "{}\n{DIM}/resume SESSION continues one; the beginning of its name is enough{PLAIN}",
                session_table(&sessions).trim_end()
            ),
        })
    }

    fn resume(&mut self, argument: &str) -> Result<String, Report> {
        if argument.is_empty() {
            return Err(Report::new(ErrorKind::Usage, "no session is named")
                .hint("name it: /resume SESSION; /sessions lists them"));
        }
        let store = self.app.sessions();
        let id = named(&store, argument)?;
        if !store.is_own(&id).map_err(|error| error.report())? {
            return Err(Report::new(ErrorKind::Usage, format!("the session `{id}` was not made here by you"))
                .hint(format!("leave, and consent to it: shelly-host chat --resume {id}")));
        }
        let (session, header) = ChatSession::existing(&store, &id, false)?;
        self.enter_session(session);
        self.recall();
        if *header.agent != *self.facts.agent {
            self.start_selection(Some(header.agent), self.args.model.clone());
        }
        Ok(format!("{DIM}from now on in the session {}{PLAIN}", name(&id)))
    }

    fn export(&self, argument: &str) -> Result<String, Report> {
        let id = self.session_id()?;
        if argument.is_empty() {
            return Err(Report::new(ErrorKind::Usage, "no file is named").hint("name a new file: /export session.md"));
        }
        let text = exported_markdown(&self.app.sessions(), id)?;
        let shown = name(argument);
        let cannot = |cause: String| Report::new(ErrorKind::Usage, format!("cannot write {shown}")).cause(cause);
        let created = std::path::absolute(argument).and_then(|path| files::create(&path, text.as_bytes()));
        match created {
            Ok(true) => Ok(format!("{DIM}written to {shown}{PLAIN}")),
            Ok(false) => Err(cannot("the file is there already".into()).hint("name a new file")),
            Err(error) => Err(cannot(error.to_string())),
        }
    }
}
