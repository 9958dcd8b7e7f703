//! The commands of a chat that change what it shows: colours, one agent in place of all, what the agents share.

use std::{io::Write, sync::Arc};

use super::{chat_loop::ChatLoop, command_execution::at_work, session_state_text::blackboards_text};
use crate::{
    cli::render::{DIM, PLAIN, name},
    error::{ErrorKind, Report},
};

impl<W: Write> ChatLoop<W> {
    /// Shows the theme, or uses another one in this chat.
    pub(super) fn theme(&mut self, argument: &str) -> Result<String, Report> {
        if argument.is_empty() {
            return Ok(self.theme.text());
        }
        let theme = self.theme.choose(argument)?;
        self.screen.set_theme(theme);
        Ok(format!("{DIM}from now on in this chat: theme {argument}{PLAIN}"))
    }

    /// Shows one agent at work in place of all, or all again.
    pub(super) fn focus(&mut self, argument: &str) -> Result<String, Report> {
        if argument.is_empty() && self.screen.focus_on(None).is_some() {
            return Ok(format!("{DIM}all agents are shown again{PLAIN}"));
        }
        let working = self.run_at_work()?.working();
        let is_of_another = |agent: &&Arc<str>| ***agent != *self.facts.agent;
        let others: Vec<_> = working.iter().filter(is_of_another).cloned().collect();
        if argument.is_empty() {
            let report = Report::new(ErrorKind::Usage, "no agent is named");
            return Err(report.hint(format!("name it: /focus NAME; {}", others_at_work(&others))));
        }
        if *argument == *self.facts.agent {
            let report = Report::new(ErrorKind::Usage, format!("what {} says is shown in any case", name(argument)));
            return Err(report.hint(others_at_work(&others)));
        }
        let Some(agent) = others.iter().find(|agent| ***agent == *argument) else {
            let report = Report::new(ErrorKind::Usage, format!("{} does not work now", name(argument)));
            return Err(report.hint(others_at_work(&others)));
        };
        self.screen.focus_on(Some(agent));
        Ok(String::new())
    }

    /// Shows the blackboards, or turns on or off what the agents share below them.
    pub(super) fn board(&mut self, argument: &str) -> Result<String, Report> {
        let is_on = match argument {
            "" => return self.recorded(blackboards_text),
            "on" => true,
            "off" => false,
            other => {
                return Err(Report::new(ErrorKind::Usage, format!("`{}` is neither `on` nor `off`", name(other)))
                    .hint("type /board on or /board off for what is shown while agents work, or /board alone for the blackboards"));
            }
        };
        self.screen.turn_board(is_on);
        Ok(match is_on {
            true => format!("{DIM}open tasks and blackboards are shown while agents work{PLAIN}"),
            false => format!("{DIM}open tasks and blackboards are not shown; /tasks and /board list them{PLAIN}"),
        })
    }
}

/// Formats the names of the agents that work beside the entry agent, as a hint.
fn others_at_work(others: &[Arc<str>]) -> String {
    match others.is_empty() {
        true => "no other agent works now".into(),
        false => at_work(others),
    }
}
