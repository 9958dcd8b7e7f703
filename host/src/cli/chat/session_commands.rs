//! The commands of a chat that act on sessions.

use std::io::Write;

use super::{
    chat_loop::ChatLoop,
    chat_session::ChatSession,
    compaction::{can_be_compacted, no_team, summary_request},
    rewind::{SentMessage, sent_messages},
};
use crate::{
    agent::journal::JournalState,
    app,
    cli::{
        ask::coloured,
        render::{DIM, PLAIN, name, one_line},
        session::{exported_markdown, session_table},
        session_name::named,
        session_target, trust,
    },
    error::{ErrorKind, Report},
    files, limits,
    task::TaskInput,
};

impl<W: Write> ChatLoop<W> {
    /// Returns the session, which has begun.
    fn session_id(&self) -> Result<&str, Report> {
        let none = || Report::new(ErrorKind::Usage, "the session begins with the first message");
        self.session.id.as_deref().ok_or_else(none)
    }

    pub(super) fn undo(&mut self) -> Result<String, Report> {
        let id = self.session_id()?.to_owned();
        let (history, warnings) = app::changed(&self.app.sessions(), &id, trust::own_key());
        let warnings: String = warnings.iter().map(|what| crate::cli::render::warning(what) + "\n").collect();
        let cannot = |cause: String| Report::new(ErrorKind::Run, "cannot undo the newest changes").cause(cause);
        let Some(change) = history.last() else { return Ok(format!("{warnings}this session has no changes to undo")) };
        let change = change.map_err(cannot)?;
        let shown = change.shown().map_err(|error| cannot(error.to_string()))?;
        let remark = session_target::boards_that_stay(&self.app.sessions(), &id);
        let remark = remark.map(|remark| format!("{DIM}{remark}{PLAIN}\n")).unwrap_or_default();
        let text = format!("{warnings}{remark}change of `{}`:\n{}", name(change.tool()), coloured(&shown));
        self.ask_to_undo(change);
        Ok(text)
    }

    pub(super) fn fork(&mut self) -> Result<String, Report> {
        let from = self.session_id()?.to_owned();
        let id = self.app.sessions().fork(&from, None).map_err(|error| error.report())?;
        self.session.id = Some(id.clone());
        Ok(format!("{DIM}from now on in the session {}, a copy of {}{PLAIN}", name(&id), name(&from)))
    }

    /// Lists the messages of the person, or goes on from before one of them.
    pub(super) fn rewind(&mut self, argument: &str) -> Result<String, Report> {
        let from = self.session_id()?.to_owned();
        let store = self.app.sessions();
        let sent = sent_messages(&store, &from)?;
        if sent.is_empty() {
            return Ok("there is no message of yours in this session".into());
        }
        if argument.is_empty() {
            return Ok(sent_messages_text(&sent));
        }
        let chosen = argument.parse::<usize>().ok().and_then(|number| sent.get(number.checked_sub(1)?));
        let Some(SentMessage { text, line_before }) = chosen else {
            let most = sent.len();
            return Err(Report::new(ErrorKind::Usage, format!("there is no message {}", name(argument)))
                .hint(format!("name a number from 1 to {most}; /rewind lists the messages")));
        };
        let (session, place) = match line_before {
            None => (ChatSession::new(), "a new session, which begins with your next message".to_owned()),
            Some(line) => {
                let id = store.fork(&from, Some(*line)).map_err(|error| error.report())?;
                let place = format!("the session {}, a copy up to there", name(&id));
                (ChatSession::existing(&store, &id, self.session.is_trusted)?.0, place)
            }
        };
        self.enter_session(session);
        self.offer_to_go_on();
        self.state.restore(text);
        let from = name(&from);
        Ok(format!(
            "{DIM}before message {argument}: {place}. The session {from} is kept.\nFiles are as they are now; changes of \
             files since then are undone with: shelly-host session undo {from}, or /resume {from} and /undo{PLAIN}"
        ))
    }

    /// Asks the agent for a summary that takes the place of the conversation.
    pub(super) fn compact(&mut self, words: &str) -> Result<String, Report> {
        if self.facts.is_team {
            return Err(no_team());
        }
        if !can_be_compacted(&self.session.chat) {
            return Ok("there is no answer yet that a summary could replace".into());
        }
        if self.session.can_go_on {
            return Err(Report::new(ErrorKind::Usage, "the last run has no answer yet")
                .hint("continue it with Enter alone, or send a message; then use /compact"));
        }
        let input = TaskInput { text: summary_request(words), attachments: Vec::new(), schema: None };
        self.start_compaction(input);
        Ok(String::new())
    }

    /// Formats a part of the state of the session, as it was recorded last.
    pub(super) fn recorded(&self, text: fn(&JournalState) -> String) -> Result<String, Report> {
        let id = self.session_id()?;
        let unreadable =
            |cause: String| Report::new(ErrorKind::Usage, format!("the session `{id}` cannot be read")).cause(cause);
        Ok(text(&session_target::read(&self.app.sessions(), id).map_err(unreadable)?.1))
    }

    pub(super) fn sessions(&self) -> Result<String, Report> {
        let sessions = self.app.sessions().list(limits::CHAT_SESSIONS_SHOWN).map_err(|error| error.report())?;
        Ok(match sessions.is_empty() {
            true => "there are no sessions in this project yet".into(),
            false => format!(
                "{}\n{DIM}/resume SESSION continues one; the beginning of its name is enough{PLAIN}",
                session_table(&sessions).trim_end()
            ),
        })
    }

    pub(super) fn resume(&mut self, argument: &str) -> Result<String, Report> {
        if argument.is_empty() {
            return Err(Report::new(ErrorKind::Usage, "no session is named")
                .hint("name it: /resume SESSION; /sessions lists them"));
        }
        let store = self.app.sessions();
        let id = named(&store, argument).map_err(|report| {
            // The command line names its own commands.
            let is_elsewhere = report.hint.as_ref().is_some_and(|hint| hint.contains("shelly-host "));
            if is_elsewhere { report.hint("/sessions lists the sessions of this project") } else { report }
        })?;
        if !store.is_own(&id).map_err(|error| error.report())? {
            return Err(Report::new(ErrorKind::Usage, format!("the session `{id}` was not made here by you"))
                .hint(format!("leave, and consent to it: shelly-host chat --resume {id}")));
        }
        let (session, header) = ChatSession::existing(&store, &id, false)?;
        self.enter_session(session);
        self.recall();
        let is_of_another = *header.agent != *self.facts.agent;
        match (self.watch_or_offer(), is_of_another) {
            // The step that runs is the watch: the agent is looked at with the next message.
            (true, true) => self.args.agent = Some(header.agent),
            (false, true) => self.start_selection(Some(header.agent), self.args.model.clone()),
            (_, false) => {}
        }
        Ok(format!("{DIM}from now on in the session {}{PLAIN}", name(&id)))
    }

    pub(super) fn export(&self, argument: &str) -> Result<String, Report> {
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

/// Formats the messages of the person with their numbers.
fn sent_messages_text(sent: &[SentMessage]) -> String {
    let hidden = sent.len().saturating_sub(limits::CHAT_REWIND_SHOWN);
    let before = if hidden > 0 { format!("  {DIM}and {hidden} earlier ones{PLAIN}\n") } else { String::new() };
    let lines = sent.iter().enumerate().skip(hidden);
    let lines = lines.map(|(at, message)| format!("{:>4}  {}\n", at + 1, one_line(&message.text, 100)));
    format!(
        "{before}{}{DIM}/rewind NUMBER continues from before that message, in a copy of the session; files are not \
         changed{PLAIN}",
        lines.collect::<String>()
    )
}
