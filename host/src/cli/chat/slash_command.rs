//! Requests of typed lines: a message to the agent, a command of the chat, or a command for the shell.

use crate::config::nearest;

/// A command of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlashCommand {
    Agent,
    Agents,
    Board,
    Clear,
    Compact,
    Context,
    Cost,
    Doctor,
    Export,
    Focus,
    Fork,
    Help,
    Mcp,
    Message,
    Model,
    Permissions,
    Plugins,
    Quit,
    Resume,
    Rewind,
    Sessions,
    Skills,
    Stop,
    Tasks,
    Theme,
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
    /// `true` if it is executed at once while the agent works; others wait until the agent has answered.
    pub is_immediate: bool,
}

/// Returns the description of a command that waits until the agent has answered.
const fn row(
    command: SlashCommand,
    name: &'static str,
    argument: &'static str,
    summary: &'static str,
) -> CommandDescription {
    CommandDescription { command, name, argument, summary, is_immediate: false }
}

/// Returns the description of a command that is executed at once.
const fn immediate(
    command: SlashCommand,
    name: &'static str,
    argument: &'static str,
    summary: &'static str,
) -> CommandDescription {
    CommandDescription { is_immediate: true, ..row(command, name, argument, summary) }
}

/// All commands, in the order of `/help`.
pub const COMMANDS: &[CommandDescription] = &[
    immediate(SlashCommand::Help, "help", "", "show keys and commands"),
    row(SlashCommand::Model, "model", "[NAME]", "show the models, or use another one from the next message on"),
    row(SlashCommand::Agent, "agent", "[NAME]", "show the agent, or use another one from the next message on"),
    immediate(SlashCommand::Agents, "agents", "", "list the agents and teams, and those at work"),
    immediate(SlashCommand::Message, "message", "NAME TEXT", "give an agent at work a message"),
    immediate(SlashCommand::Stop, "stop", "NAME", "stop one agent at work, with those that work for it"),
    immediate(SlashCommand::Focus, "focus", "[NAME]", "show what one agent at work says and calls; alone, all again"),
    immediate(SlashCommand::Tools, "tools", "", "list the tools of the agent"),
    immediate(SlashCommand::Plugins, "plugins", "", "list the plugins of the agent"),
    row(
        SlashCommand::Mcp,
        "mcp",
        "",
        "list the MCP servers, the approval of their tools, and their prompts; each prompt is a command",
    ),
    immediate(SlashCommand::Skills, "skills", "", "list the skills of the agent; each is a command too"),
    immediate(
        SlashCommand::Permissions,
        "permissions",
        "",
        "show what the agent may do, and what you allowed from now on",
    ),
    immediate(SlashCommand::Tasks, "tasks", "", "show the task board of this session"),
    immediate(
        SlashCommand::Board,
        "board",
        "[on|off]",
        "show the blackboards of this session; or turn on or off what is shown of tasks and blackboards while agents work",
    ),
    immediate(SlashCommand::Cost, "cost", "", "show the tokens and the cost of this session, by agent"),
    immediate(SlashCommand::Context, "context", "", "show the parts that fill the context window"),
    row(
        SlashCommand::Compact,
        "compact",
        "[WORDS]",
        "replace the conversation by a summary that the agent's model writes",
    ),
    row(SlashCommand::Clear, "clear", "", "begin a new session; the present one is kept"),
    row(
        SlashCommand::Rewind,
        "rewind",
        "[NUMBER]",
        "list your messages, or continue from before one, in a copy of the session",
    ),
    row(SlashCommand::Undo, "undo", "", "undo the newest file changes of this session, after asking"),
    row(SlashCommand::Fork, "fork", "", "continue in a copy of this session"),
    row(SlashCommand::Sessions, "sessions", "", "list the sessions of this project"),
    row(SlashCommand::Resume, "resume", "SESSION", "continue another session"),
    row(SlashCommand::Export, "export", "FILE", "write this session to a new Markdown file"),
    row(SlashCommand::Doctor, "doctor", "[offline]", "check everything that runs need; asks each model unless offline"),
    immediate(SlashCommand::Theme, "theme", "[NAME]", "show the theme, or use another one in this chat"),
    immediate(SlashCommand::Quit, "quit", "", "leave; the session is kept"),
];

/// Returns `true` for a line whose command is executed at once while the agent works.
pub fn is_immediate(line: &str) -> bool {
    match TypedRequest::parse(line, &KnownCommands::default()) {
        TypedRequest::Command { command, .. } => {
            COMMANDS.iter().any(|known| known.command == command && known.is_immediate)
        }
        _ => false,
    }
}

/// The commands that a chat has beside its own.
#[derive(Debug, Default)]
pub struct KnownCommands<'a> {
    /// The names of the project's commands.
    pub project: &'a [String],
    /// The names of the agent's skills.
    pub skills: &'a [String],
    /// The names of the MCP servers of the config.
    pub servers: &'a [String],
    /// The prompts of servers that were connected: `SERVER:PROMPT`.
    pub prompts: &'a [String],
}

/// A prompt of an MCP server, with what was typed after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptCommand {
    pub server: String,
    pub prompt: String,
    pub arguments: String,
}

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
    /// A skill of the agent, with what is to be done with it.
    Skill {
        name: String,
        words: String,
    },
    /// The text that a server has for a prompt.
    Prompt(PromptCommand),
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
    /// Parses what was typed. Of the same name, a built-in command counts, then one of the project, then a skill, then a
    /// prompt; only a skill can have the name of a prompt, since the others have no colon. A prompt of a server of the config
    /// need not be known.
    pub fn parse(text: &str, known: &KnownCommands) -> Self {
        let KnownCommands { project, skills, servers, prompts } = known;
        let trimmed = text.trim();
        if let Some(command) = trimmed.strip_prefix('!') {
            let (command, is_shared) = command.strip_prefix('!').map_or((command, false), |command| (command, true));
            return Self::Shell { command: command.trim().to_owned(), is_shared };
        }
        let Some(rest) = trimmed.strip_prefix('/') else { return Self::Message(text.to_owned()) };
        let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let is_prompt =
            |(server, prompt): &(&str, &str)| !prompt.is_empty() && servers.iter().any(|known| known == server);
        let prompt = name.split_once(':').filter(is_prompt);
        // A path, as in "/etc/hosts has …". The name of a prompt may have a slash, too.
        if name.is_empty() || name.contains('/') && prompt.is_none() {
            return Self::Message(text.to_owned());
        }
        let argument = argument.trim().to_owned();
        if let Some(known) = COMMANDS.iter().find(|known| known.name == name) {
            return Self::Command { command: known.command, argument };
        }
        if project.iter().any(|known| known == name) {
            return Self::Custom { name: name.to_owned(), arguments: argument };
        }
        if skills.iter().any(|known| known == name) {
            return Self::Skill { name: name.to_owned(), words: argument };
        }
        if let Some((server, prompt)) = prompt {
            let (server, prompt) = (server.to_owned(), prompt.to_owned());
            return Self::Prompt(PromptCommand { server, prompt, arguments: argument });
        }
        let others = project.iter().chain(*skills).chain(*prompts).map(String::as_str);
        let names: Vec<_> = COMMANDS.iter().map(|known| known.name).chain(others).collect();
        Self::Unknown { name: name.to_owned(), nearest: nearest(name, &names).map(str::to_owned) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_lines_are_told_apart() {
        let project = ["review", "help"].map(str::to_owned);
        let skills = ["review", "release-notes", "git:skill"].map(str::to_owned);
        let servers = ["git", "web_2"].map(str::to_owned);
        let prompts = ["git:review".to_owned()];
        let known = KnownCommands { project: &project, skills: &skills, servers: &servers, prompts: &prompts };
        let message = |text: &str| TypedRequest::Message(text.into());
        let command = |command, argument: &str| TypedRequest::Command { command, argument: argument.into() };
        let prompt = |server: &str, prompt: &str, arguments: &str| {
            let (server, prompt, arguments) = (server.into(), prompt.into(), arguments.into());
            TypedRequest::Prompt(PromptCommand { server, prompt, arguments })
        };
        let shell = |command: &str, is_shared| TypedRequest::Shell { command: command.into(), is_shared };
        for (text, request) in [
            ("what is 1/2?", message("what is 1/2?")),
            ("/etc/hosts has an entry", message("/etc/hosts has an entry")),
            ("/ is the root", message("/ is the root")),
            ("/help", command(SlashCommand::Help, "")),
            (" /model  large one ", command(SlashCommand::Model, "large one")),
            ("/review a b", TypedRequest::Custom { name: "review".into(), arguments: "a b".into() }),
            ("/release-notes of 1.2", TypedRequest::Skill { name: "release-notes".into(), words: "of 1.2".into() }),
            (
                "/release-note",
                TypedRequest::Unknown { name: "release-note".into(), nearest: Some("release-notes".into()) },
            ),
            ("/quti", TypedRequest::Unknown { name: "quti".into(), nearest: Some("quit".into()) }),
            ("/zzzzzzzz x", TypedRequest::Unknown { name: "zzzzzzzz".into(), nearest: None }),
            (" /git:review  path=a\nb ", prompt("git", "review", "path=a\nb")),
            ("/web_2:not/known", prompt("web_2", "not/known", "")),
            ("/git:a:b c", prompt("git", "a:b", "c")),
            ("/git:skill x", TypedRequest::Skill { name: "git:skill".into(), words: "x".into() }),
            ("/gti:review", TypedRequest::Unknown { name: "gti:review".into(), nearest: Some("git:review".into()) }),
            ("/git:", TypedRequest::Unknown { name: "git:".into(), nearest: None }),
            ("/tmp:x/y is a path", message("/tmp:x/y is a path")),
            ("!ls -l", shell("ls -l", false)),
            ("!! git diff ", shell("git diff", true)),
        ] {
            assert_eq!(TypedRequest::parse(text, &known), request, "{text}");
        }
    }

    #[test]
    fn commands_that_begin_a_step_wait_for_the_agent() {
        for (line, expected) in [
            ("/agents", true),
            (" /message ada look here", true),
            ("/stop ada", true),
            ("/focus ada", true),
            ("/theme light", true),
            ("/compact", false),
            ("/doctor", false),
            ("/model large", false),
            ("/git:review", false),
            ("/agentsx", false),
            ("agents", false),
        ] {
            assert_eq!(is_immediate(line), expected, "{line}");
        }
    }
}
