//! Requests of typed lines: a message to the agent, a command of the chat, or a command for the shell.

use crate::config::nearest;

/// A command of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlashCommand {
    Agent,
    Agents,
    Clear,
    Context,
    Cost,
    Export,
    Fork,
    Help,
    Model,
    Quit,
    Resume,
    Sessions,
    Tools,
    Undo,
}

/// A command as people read it.
pub struct CommandDescription {
    pub command: SlashCommand,
    pub name: &'static str,
    /// The form of its argument; empty if it takes none.
    pub argument: &'static str,
    pub summary: &'static str,
}

const fn row(
    command: SlashCommand,
    name: &'static str,
    argument: &'static str,
    summary: &'static str,
) -> CommandDescription {
    CommandDescription { command, name, argument, summary }
}

/// All commands, in the order of `/help`.
pub const COMMANDS: &[CommandDescription] = &[
    row(SlashCommand::Help, "help", "", "show keys and commands"),
    row(SlashCommand::Model, "model", "[NAME]", "show the models, or use another one from the next message on"),
    row(SlashCommand::Agent, "agent", "[NAME]", "show the agent, or use another one from the next message on"),
    row(SlashCommand::Agents, "agents", "", "list the agents and teams"),
    row(SlashCommand::Tools, "tools", "", "list the tools of the agent"),
    row(SlashCommand::Cost, "cost", "", "show the tokens and the cost of this session, by agent"),
    row(SlashCommand::Context, "context", "", "show the parts that fill the context window"),
    row(SlashCommand::Clear, "clear", "", "begin a new session; the present one is kept"),
    row(SlashCommand::Undo, "undo", "", "undo the newest file changes of this session, after asking"),
    row(SlashCommand::Fork, "fork", "", "continue in a copy of this session"),
    row(SlashCommand::Sessions, "sessions", "", "list the sessions of this project"),
    row(SlashCommand::Resume, "resume", "SESSION", "continue another session"),
    row(SlashCommand::Export, "export", "FILE", "write this session to a new Markdown file"),
    row(SlashCommand::Quit, "quit", "", "leave; the session is kept"),
];

/// The request of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum TypedRequest {
    /// A message to the agent.
    Message(String),
    Command {
        command: SlashCommand,
        argument: String,
    },
    /// A command from a file of the project.
    Custom {
        name: String,
        arguments: String,
    },
    /// A command for the person's shell. If `is_shared`, its output is added to the next message.
    Shell {
        command: String,
        is_shared: bool,
    },
    /// There is no such command; perhaps `nearest` was meant.
    Unknown {
        name: String,
        nearest: Option<String>,
    },
}

impl TypedRequest {
    /// Parses what was typed. `custom` are the names of the project's commands; a built-in command of the same name counts.
    pub fn parse(text: &str, custom: &[String]) -> Self {
        let trimmed = text.trim();
        if let Some(command) = trimmed.strip_prefix('!') {
            let (command, is_shared) = command.strip_prefix('!').map_or((command, false), |command| (command, true));
            return Self::Shell { command: command.trim().to_owned(), is_shared };
        }
        let Some(rest) = trimmed.strip_prefix('/') else { return Self::Message(text.to_owned()) };
        let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        // A path, as in "/etc/hosts has …".
        if name.is_empty() || name.contains('/') {
            return Self::Message(text.to_owned());
        }
        let argument = argument.trim().to_owned();
        if let Some(known) = COMMANDS.iter().find(|known| known.name == name) {
            return Self::Command { command: known.command, argument };
        }
        if custom.iter().any(|known| known == name) {
            return Self::Custom { name: name.to_owned(), arguments: argument };
        }
        let names: Vec<_> = COMMANDS.iter().map(|known| known.name).chain(custom.iter().map(String::as_str)).collect();
        Self::Unknown { name: name.to_owned(), nearest: nearest(name, &names).map(str::to_owned) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_lines_are_told_apart() {
        let custom = ["review".to_owned(), "help".to_owned()];
        let message = |text: &str| TypedRequest::Message(text.into());
        let command = |command, argument: &str| TypedRequest::Command { command, argument: argument.into() };
        let shell = |command: &str, is_shared| TypedRequest::Shell { command: command.into(), is_shared };
        for (text, request) in [
            ("what is 1/2?", message("what is 1/2?")),
            ("/etc/hosts has an entry", message("/etc/hosts has an entry")),
            ("/ is the root", message("/ is the root")),
            ("/help", command(SlashCommand::Help, "")),
            (" /model  large one ", command(SlashCommand::Model, "large one")),
            ("/review a b", TypedRequest::Custom { name: "review".into(), arguments: "a b".into() }),
            ("/quti", TypedRequest::Unknown { name: "quti".into(), nearest: Some("quit".into()) }),
            ("/zzzzzzzz x", TypedRequest::Unknown { name: "zzzzzzzz".into(), nearest: None }),
            ("!ls -l", shell("ls -l", false)),
            ("!! git diff ", shell("git diff", true)),
        ] {
            assert_eq!(TypedRequest::parse(text, &custom), request, "{text}");
        }
    }
}
