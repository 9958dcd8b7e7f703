//! The commands of `shelly-host`, from the parser of its command line.

use clap::{Arg, ArgAction, Command};

use crate::{
    markdown::{code_block, map_prose, sentence, table},
    page::ReferencePage,
};

const INTRODUCTION: &str = "\
Every command of `shelly-host`, with its options and their defaults. `shelly-host COMMAND --help` shows the same. \
[Operating](operating.md) says where files are, which variables of the environment are read, and what the exit codes mean; \
[sessions](sessions.md) shows the `session` commands at work.";

/// The widest line of a synopsis.
const WIDTH: usize = 100;

/// Returns the page of all commands.
pub fn page(program: &Command) -> ReferencePage {
    let mut rows = Vec::new();
    let mut sections = String::new();
    for command in visible(program) {
        add(command, program, command.get_name().to_owned(), 2, &mut rows, &mut sections);
    }
    let after = program.get_after_help().map(|help| prose(&help.to_string(), program)).unwrap_or_default();
    let text = format!(
        "# Commands\n\n{INTRODUCTION}\n\n{}\n`{} --version` prints the version.\n\n{after}\n\n{sections}",
        table(&["command", "purpose"], &rows),
        program.get_name(),
    );
    ReferencePage::new("cli.md", "host/src/cli", &text)
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

/// Adds the section of a command, and those of the commands below it.
fn add(
    command: &Command,
    program: &Command,
    name: String,
    level: usize,
    rows: &mut Vec<Vec<String>>,
    sections: &mut String,
) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let below: Vec<_> = visible(command).collect();
    // A name that only stands before others is no command of its own.
    if below.is_empty() || !command.is_subcommand_required_set() {
        rows.push(vec![format!("[`{name}`](#{})", name.replace(' ', "-")), prose(&sentence(&about), program)]);
    }
    sections.push_str(&format!("{} `{name}`\n\n", "#".repeat(level)));
    let long = command.get_long_about().map_or(about, ToString::to_string);
    sections.push_str(&format!("{}\n\n", prose(&sentence(&long), program)));
    if below.is_empty() || !command.is_subcommand_required_set() {
        sections.push_str(&format!(
            "{}\n",
            code_block("text", &synopsis(command, &format!("{} {name}", program.get_name())))
        ));
        let arguments: Vec<_> = arguments(command).map(|argument| row(command, argument, program)).collect();
        if !arguments.is_empty() {
            sections.push_str(&format!("{}\n", table(&["option", "meaning"], &arguments)));
        }
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        sections.push_str(&format!("{}\n\n", prose(&after.to_string(), program)));
    }
    for command in below {
        add(command, program, format!("{name} {}", command.get_name()), level + 1, rows, sections);
    }
}

/// Returns the arguments that help shows, those without a name first.
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_shown =
        |argument: &&Arg| !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str());
    command
        .get_positionals()
        .chain(command.get_arguments().filter(|argument| !argument.is_positional()))
        .filter(is_shown)
}

fn takes_value(argument: &Arg) -> bool {
    argument.is_positional() || argument.get_action().takes_values()
}

fn is_repeated(argument: &Arg) -> bool {
    let several = argument.get_num_args().is_some_and(|count| count.max_values() > 1);
    several || (matches!(argument.get_action(), ArgAction::Append) && takes_value(argument))
}

/// Returns the names of an argument's value: `FILE`, or the values that are possible.
fn value_name(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    let names: Vec<_> = names.collect();
    if names.is_empty() { argument.get_id().as_str().to_uppercase() } else { names.join(" ") }
}

/// Returns the name of an argument as a command line has it, with the name of its value.
fn spelling(argument: &Arg) -> String {
    let value = if takes_value(argument) { value_name(argument) } else { String::new() };
    match argument.get_long() {
        Some(long) if value.is_empty() => format!("--{long}"),
        Some(long) => format!("--{long} {value}"),
        None => value,
    }
}

/// Returns the command line with all arguments, options first, on several lines if it is long.
fn synopsis(command: &Command, begin: &str) -> String {
    let options = arguments(command).filter(|argument| !argument.is_positional());
    let positionals = arguments(command).filter(|argument| argument.is_positional());
    let words = options.chain(positionals).map(|argument| {
        let spelling = match argument.get_possible_values() {
            values if values.is_empty() || !takes_value(argument) || argument.is_positional() => spelling(argument),
            values => {
                let names: Vec<_> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
                format!("--{} {}", argument.get_long().unwrap_or_default(), names.join("|"))
            }
        };
        let spelling = if argument.is_required_set() { spelling } else { format!("[{spelling}]") };
        if is_repeated(argument) { format!("{spelling}…") } else { spelling }
    });
    let (mut lines, mut line) = (Vec::new(), begin.to_owned());
    let indent = " ".repeat(begin.len());
    for word in words {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut line, indent.clone()));
        }
        line.push_str(&format!(" {word}"));
    }
    lines.push(line);
    lines.join("\n")
}

/// Returns the row of an argument: its name, and its help with its values, its default, and what it cannot stand with.
fn row(command: &Command, argument: &Arg, program: &Command) -> Vec<String> {
    let short = argument.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut meaning = vec![prose(&sentence(&help), program)];
    let values: Vec<_> = argument.get_possible_values().into_iter().filter(|value| !value.is_hide_set()).collect();
    if takes_value(argument) && values.iter().any(|value| value.get_help().is_some()) {
        let values = values.iter().map(|value| {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            format!("`{}`: {}", value.get_name(), prose(&sentence(&help), program))
        });
        meaning.push(values.collect::<Vec<_>>().join(" "));
    } else if takes_value(argument) && !values.is_empty() {
        let names: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        meaning.push(format!("One of {}.", names.join(", ")));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if takes_value(argument) && !defaults.is_empty() {
        meaning.push(format!("Default: {}.", defaults.join(", ")));
    }
    if is_repeated(argument) && !help.contains("repeatable") {
        meaning.push("May be given several times.".to_owned());
    }
    let conflicts: Vec<_> = arguments(command)
        .filter(|other| conflict(command, argument, other))
        .map(|other| format!("`{}`", name(other)))
        .collect();
    if !conflicts.is_empty() {
        meaning.push(format!("Not with {}.", conflicts.join(", ")));
    }
    vec![format!("{short}`{}`", spelling(argument)), meaning.join(" ")]
}

/// Returns the name of an argument without its value.
fn name(argument: &Arg) -> String {
    argument.get_long().map_or_else(|| value_name(argument), |long| format!("--{long}"))
}

/// Returns `true` if one of the two says that it cannot stand with the other.
fn conflict(command: &Command, one: &Arg, other: &Arg) -> bool {
    let names = |one: &Arg, other: &Arg| {
        command.get_arg_conflicts_with(one).iter().any(|conflict| conflict.get_id() == other.get_id())
    };
    one.get_id() != other.get_id() && (names(one, other) || names(other, one))
}

/// Returns a help text as Markdown: indented lines are blocks of code, and what is typed is code.
fn prose(text: &str, program: &Command) -> String {
    let mut pieces: Vec<String> = Vec::new();
    let lines: Vec<_> = text.trim_end().lines().collect();
    let mut lines = lines.as_slice();
    while let Some(first) = lines.first() {
        let is_code = |line: &&str| line.starts_with("  ") || line.trim().is_empty();
        let is_block = first.starts_with("  ");
        let count =
            lines.iter().take_while(|line| if is_block { is_code(line) } else { !line.starts_with("  ") }).count();
        let (these, rest) = lines.split_at(count);
        lines = rest;
        if is_block {
            let indent =
                these.iter().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len());
            let indent = indent.min().unwrap_or_default();
            let code: Vec<_> = these.iter().map(|line| line.get(indent..).unwrap_or_default()).collect();
            let is_shell = code
                .iter()
                .filter(|line| !line.is_empty())
                .all(|line| line.contains(&format!("{} ", program.get_name())));
            pieces.push(code_block(if is_shell { "sh" } else { "text" }, &code.join("\n")).trim_end().to_owned());
        } else {
            let paragraphs: Vec<_> =
                these.join("\n").trim().split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
            pieces.push(map_prose(&paragraphs.join("\n\n"), |piece, is_code| match is_code {
                true => format!("`{piece}`"),
                false => typed_as_code(piece, program),
            }));
        }
    }
    pieces.join("\n\n")
}

/// The marks after a word that are no part of it.
const MARKS: [char; 5] = [',', '.', ';', ':', ')'];

/// Marks options, variables of the environment and commands of the program as code.
fn typed_as_code(text: &str, program: &Command) -> String {
    let mut words = text.split(' ').peekable();
    let mut marked: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        let typed = word.trim_start_matches('(').trim_end_matches(MARKS);
        if typed != program.get_name() {
            marked.push(match is_typed(typed) {
                true => word.replacen(typed, &format!("`{typed}`"), 1),
                false => word.replace('<', "\\<").replace('*', "\\*"),
            });
            continue;
        }
        // The words after it that are its commands, options, or the name of the last session.
        let (mut goes_on, mut line, mut deepest) = (word.ends_with(typed), word.to_owned(), program);
        while goes_on && let Some(next) = words.peek() {
            let name = next.trim_end_matches(MARKS);
            match deepest.find_subcommand(name) {
                Some(below) => deepest = below,
                None if name.starts_with("--") || name == "last" => {}
                None => break,
            }
            line.push_str(&format!(" {next}"));
            goes_on = !next.ends_with(MARKS);
            words.next();
        }
        let end = line.trim_end_matches(MARKS).len();
        marked.push(format!("`{}`{}", &line[..end], &line[end..]));
    }
    marked.join(" ")
}

/// Returns `true` for what a person types as it stands: an option, a variable of the environment, a path.
fn is_typed(word: &str) -> bool {
    let is_variable = word.contains('_') && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let is_option = word.len() > 2 && word.starts_with("--");
    let is_file =
        [".yaml", ".toml", ".md", ".json"].iter().any(|ending| word.len() > ending.len() && word.ends_with(ending));
    is_option || is_variable || is_file || word.starts_with(".shelly")
}
