//! Hints about what a person probably meant by a command line that cannot be parsed.

use std::ffi::OsString;

use clap::{
    Command, Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind as ClapKind},
};

use crate::config::nearest;

/// Adds to an error what the words of the command line, without the program's name, probably mean. `command` is that of the
/// program.
pub fn add_hints(error: &mut Error, mut command: Command, words: &[OsString]) {
    // Full names of subcommands are known only then.
    command.build();
    let (mut named, mut depth) = (&mut command, 0);
    for word in words {
        let Some(at) = named.get_subcommands().position(|one| *word == *one.get_name()) else { break };
        depth += 1;
        named = named.get_subcommands_mut().nth(at).expect("this is the position of one");
    }
    match error.kind() {
        ClapKind::UnknownArgument => {
            let is_run = depth == 1 && named.get_name() == "run";
            if is_run && is_plain_word(error.get(ContextKind::InvalidArg)) {
                add_tip(error, "put the task in quotes: shelly-host run \"…\"");
            }
            // Otherwise it shows the argument that is suggested as if it were needed.
            error.insert(ContextKind::Usage, ContextValue::StyledStr(named.render_usage()));
        }
        // The file is an alternative to the task, which alone is said to be missing.
        ClapKind::MissingRequiredArgument if depth == 1 && named.get_name() == "submit" => {
            add_tip(
                error,
                "give a task: shelly-host submit \"…\", or a file of tasks: shelly-host submit --tasks FILE",
            );
        }
        ClapKind::InvalidSubcommand => suggest_command(error, named, depth == 0),
        _ => {}
    }
}

/// Suggests a subcommand of `command` with a similar name. Words for the program itself may be a task without its command.
fn suggest_command(error: &mut Error, command: &Command, is_program: bool) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand).cloned() else { return };
    if is_program && word.contains(char::is_whitespace) {
        error.remove(ContextKind::SuggestedSubcommand);
        return add_tip(error, "to give a task: shelly-host run \"…\"");
    }
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return;
    }
    let names: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
    match nearest(&word, &names) {
        Some(near) => {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::String(near.to_owned()));
        }
        None if is_program => add_tip(error, "to give a task: shelly-host run \"…\""),
        None => {}
    }
}

fn add_tip(error: &mut Error, tip: &'static str) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
}

/// Returns `true` for a word that is no option: a second word after a task is usually the rest of the task.
fn is_plain_word(argument: Option<&ContextValue>) -> bool {
    matches!(argument, Some(ContextValue::String(word)) if !word.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    /// A program with some of the commands.
    fn program() -> Command {
        let option = |name: &'static str| Arg::new(name).long(name).value_name("NAME");
        let below = |name: &'static str, inner: &'static str| {
            let inner = Command::new(inner).arg(option("output"));
            Command::new(name).subcommand_required(true).subcommand(inner)
        };
        let run = Command::new("run").arg(Arg::new("TASK").required(true)).arg(option("model"));
        let task = Arg::new("TASK").required_unless_present("tasks");
        let submit = Command::new("submit").arg(task).arg(option("tasks"));
        let program = Command::new("shelly-host").bin_name("shelly-host").version("1").subcommand_required(true);
        program.subcommands([run, submit, Command::new("chat"), below("config", "check"), below("session", "list")])
    }

    fn shown(line: &[&str]) -> String {
        let words: Vec<_> = line.iter().map(OsString::from).collect();
        let mut error = program().try_get_matches_from([&["shelly-host"], line].concat()).unwrap_err();
        add_hints(&mut error, program(), &words);
        error.to_string()
    }

    #[test]
    fn command_that_was_probably_meant_is_suggested() {
        for (line, tip) in [
            (&["rnu"][..], "a similar subcommand exists: 'run'"),
            (&["rum"], "a similar subcommand exists: 'run'"),
            (&["What is a monad"], "to give a task: shelly-host run \"…\""),
            (&["run now"], "to give a task: shelly-host run \"…\""),
            (&["run", "hello", "world"], "put the task in quotes: shelly-host run \"…\""),
            (&["submit"], "give a task: shelly-host submit \"…\", or a file of tasks: shelly-host submit --tasks FILE"),
            (&["config", "chekc"], "a similar subcommand exists: 'check'"),
            (&["session", "lits"], "a similar subcommand exists: 'list'"),
            (&["--verison"], "a similar argument exists: '--version'"),
        ] {
            let text = shown(line);
            assert!(text.contains(&format!("tip: {tip}")) && text.matches("tip:").count() == 1, "{line:?}: {text}");
        }
        assert!(!shown(&["config", "xyzzy"]).contains("tip:"));
    }

    #[test]
    fn usage_after_an_error_is_that_of_the_command() {
        for (line, usage) in [
            (&["--verison"][..], "Usage: shelly-host <COMMAND>\n"),
            (&["run", "hi", "--modell", "x"], "Usage: shelly-host run [OPTIONS] <TASK>\n"),
            (&["session", "list", "--outptu", "json"], "Usage: shelly-host session list [OPTIONS]\n"),
        ] {
            assert!(shown(line).contains(usage), "{line:?}: {}", shown(line));
        }
    }
}
