use std::{ffi::OsStr, path::Path, sync::Arc};

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};

use super::{
    is_plain,
    names_in_reach::{DescribedName, NamesInReach},
};
use crate::{
    cli::{init::template_names, render::one_line},
    error::acts_on_terminal,
    limits,
    plugin::PluginKind,
};

/// The values that a shell offers for an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompletedValue {
    Agents,
    /// The models of the config.
    Models,
    /// The models of the config, and the plugins that are models.
    ModelsAndPlugins,
    McpServers,
    Apis,
    Triggers,
    Plugins,
    /// Installed agent packages.
    AgentPackages,
    /// A plugin by its id or its path.
    PluginsAndPaths,
    PluginKinds,
    Sessions,
    Templates,
    /// Files that end in `.yaml` or `.yml`, and the folders on the way to them.
    Configs,
    Files,
    Folders,
    /// Text that only the person knows.
    Nothing,
}

/// An argument and its values.
struct CompletedArgument {
    /// The command, or the beginning of the names of several; empty: every command.
    command: &'static str,
    /// The id of the argument in the parser.
    argument: &'static str,
    values: CompletedValue,
}

const fn row(command: &'static str, argument: &'static str, values: CompletedValue) -> CompletedArgument {
    CompletedArgument { command, argument, values }
}

/// Every argument that takes a value and is no choice among fixed words. The first row that fits counts: a row of one command must
/// stand before the row of every command for the same argument, as `model` of `plugin certify` does.
const ARGUMENTS: &[CompletedArgument] = &[
    row("", "config", CompletedValue::Configs),
    row("", "plugins", CompletedValue::Folders),
    row("", "agent", CompletedValue::Agents),
    row("plugin certify", "model", CompletedValue::Models),
    row("agent install", "model", CompletedValue::Models),
    row("", "model", CompletedValue::ModelsAndPlugins),
    row("", "task", CompletedValue::Nothing),
    row("", "max_cost", CompletedValue::Nothing),
    row("batch", "tasks", CompletedValue::Files),
    row("batch", "output", CompletedValue::Files),
    row("batch", "jobs", CompletedValue::Nothing),
    row("", "attach", CompletedValue::Files),
    row("", "schema", CompletedValue::Files),
    row("chat", "resume", CompletedValue::Sessions),
    row("chat", "projects", CompletedValue::Folders),
    row("run", "session", CompletedValue::Sessions),
    row("run", "after", CompletedValue::Sessions),
    row("init", "template", CompletedValue::Templates),
    row("init", "dir", CompletedValue::Folders),
    row("session list", "limit", CompletedValue::Nothing),
    row("session search", "limit", CompletedValue::Nothing),
    row("session search", "text", CompletedValue::Nothing),
    row("session export", "out", CompletedValue::Files),
    row("session fork", "at", CompletedValue::Nothing),
    row("session prune", "older_than", CompletedValue::Nothing),
    row("session prune", "keep", CompletedValue::Nothing),
    row("session prune", "max_bytes", CompletedValue::Nothing),
    row("session", "id", CompletedValue::Sessions),
    row("session rm", "ids", CompletedValue::Sessions),
    row("trace", "html", CompletedValue::Files),
    row("trace", "out", CompletedValue::Files),
    row("trace", "diff", CompletedValue::Sessions),
    row("trace", "id", CompletedValue::Sessions),
    row("plugin", "plugin", CompletedValue::PluginsAndPaths),
    row("plugin call", "tool", CompletedValue::Nothing),
    row("plugin call", "arguments", CompletedValue::Nothing),
    row("plugin", "file", CompletedValue::Files),
    row("plugin complete", "message", CompletedValue::Nothing),
    row("plugin test", "cases", CompletedValue::Files),
    row("plugin test", "filter", CompletedValue::Nothing),
    row("plugin", "grants", CompletedValue::Nothing),
    row("plugin", "params", CompletedValue::Nothing),
    row("plugin", "dir", CompletedValue::Folders),
    row("plugin dev", "project", CompletedValue::Folders),
    row("plugin dev", "call", CompletedValue::Nothing),
    row("plugin dev", "step", CompletedValue::Files),
    row("plugin dev", "complete", CompletedValue::Files),
    row("plugin certify", "id", CompletedValue::Plugins),
    row("plugin install", "source", CompletedValue::PluginsAndPaths),
    row("plugin", "index", CompletedValue::Files),
    row("plugin search", "words", CompletedValue::Nothing),
    row("plugin publish", "path", CompletedValue::PluginsAndPaths),
    row("plugin publish", "artifact", CompletedValue::Nothing),
    row("plugin remove", "id", CompletedValue::Plugins),
    row("plugin update", "ids", CompletedValue::Plugins),
    row("agent install", "source", CompletedValue::Files),
    row("agent install", "index", CompletedValue::Files),
    row("agent publish", "path", CompletedValue::Folders),
    row("agent publish", "artifact", CompletedValue::Nothing),
    row("agent remove", "id", CompletedValue::AgentPackages),
    row("agent update", "ids", CompletedValue::AgentPackages),
    row("plugin new", "name", CompletedValue::Nothing),
    row("plugin wit", "out", CompletedValue::Folders),
    row("skill check", "folders", CompletedValue::Folders),
    row("provider check", "names", CompletedValue::Models),
    row("acp", "allow_client_mcp", CompletedValue::Nothing),
    row("mcp", "http", CompletedValue::Nothing),
    row("mcp", "token_env", CompletedValue::Nothing),
    row("mcp", "token_file", CompletedValue::Files),
    row("mcp", "allow_host", CompletedValue::Nothing),
    row("mcp", "allow_origin", CompletedValue::Nothing),
    row("mcp", "server", CompletedValue::McpServers),
    row("mcp approve", "tools", CompletedValue::Nothing),
    row("mcp login", "port", CompletedValue::Nothing),
    row("trigger", "trigger", CompletedValue::Triggers),
    row("trigger", "payload", CompletedValue::Files),
    row("trigger", "event", CompletedValue::Nothing),
    row("serve", "listen", CompletedValue::Nothing),
    row("serve", "tls_cert", CompletedValue::Files),
    row("serve", "tls_key", CompletedValue::Files),
    row("serve", "token_file", CompletedValue::Files),
    row("serve", "token_env", CompletedValue::Nothing),
    row("serve", "allow_host", CompletedValue::Nothing),
    row("serve", "allow_origin", CompletedValue::Nothing),
    row("serve", "max_runs", CompletedValue::Nothing),
    row("serve", "question_time", CompletedValue::Nothing),
    row("serve", "a2a_url", CompletedValue::Nothing),
    row("serve", "a2a_push", CompletedValue::Nothing),
    row("submit", "max_tokens", CompletedValue::Nothing),
    row("submit", "session", CompletedValue::Sessions),
    row("submit", "id", CompletedValue::Nothing),
    row("submit", "labels", CompletedValue::Nothing),
    row("submit", "tasks", CompletedValue::Files),
    row("", "namespace", CompletedValue::Nothing),
    row("worker", "jobs", CompletedValue::Nothing),
    row("worker", "labels", CompletedValue::Nothing),
    row("worker", "listen", CompletedValue::Nothing),
    row("attach", "answer", CompletedValue::Nothing),
    row("attach", "question", CompletedValue::Nothing),
    row("attach", "message", CompletedValue::Nothing),
    row("attach", "id", CompletedValue::Sessions),
    row("cluster runs", "limit", CompletedValue::Nothing),
    row("cluster cancel", "id", CompletedValue::Sessions),
    row("cluster prune", "older_than", CompletedValue::Nothing),
    row("cluster key", "file", CompletedValue::Files),
    row("openapi", "api", CompletedValue::Apis),
    row("openapi approve", "operations", CompletedValue::Nothing),
    row("conformance", "kind", CompletedValue::PluginKinds),
    row("conformance", "suite", CompletedValue::Folders),
    row("conformance", "export", CompletedValue::Folders),
    row("conformance", "play", CompletedValue::Nothing),
    row("man", "dir", CompletedValue::Folders),
    row("doctor", "bundle", CompletedValue::Files),
];

/// Returns the position of the row of an argument; `None` if no row fits. The command is named without the program.
fn row_of(command: &str, argument: &str) -> Option<usize> {
    let is_of = |row: &CompletedArgument| {
        let below = command.strip_prefix(row.command);
        let is_command =
            row.command.is_empty() || below.is_some_and(|below| below.is_empty() || below.starts_with(' '));
        is_command && row.argument == argument
    };
    ARGUMENTS.iter().position(is_of)
}

/// Returns `true` for an argument whose values no list of the parser has.
fn takes_other_values(argument: &Arg) -> bool {
    argument.get_action().takes_values() && argument.get_possible_values().is_empty()
}

/// Adds to each argument the names with which a shell completes it. `is_quoted` says that the shell quotes what it inserts.
pub fn with_completed_values(command: Command, names: &Arc<NamesInReach>, is_quoted: bool) -> Command {
    complete_below(command, "", names, is_quoted)
}

fn complete_below(mut command: Command, name: &str, names: &Arc<NamesInReach>, is_quoted: bool) -> Command {
    let arguments: Vec<_> = command.get_arguments().filter(|argument| takes_other_values(argument)).collect();
    let ids: Vec<_> = arguments.into_iter().map(|argument| argument.get_id().clone()).collect();
    for id in ids {
        let Some(values) = row_of(name, id.as_str()).map(|row| ARGUMENTS[row].values) else { continue };
        let names = Arc::clone(names);
        let completer = move |current: &OsStr| candidates(values, current, &names, is_quoted);
        command = command.mut_arg(id, |argument| argument.add(ArgValueCompleter::new(completer)));
    }
    let below: Vec<_> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    for below in below {
        let name = if name.is_empty() { below.clone() } else { format!("{name} {below}") };
        command = command.mut_subcommand(below, |below| complete_below(below, &name, names, is_quoted));
    }
    command
}

/// Returns the candidates for an argument of which `current` is typed.
fn candidates(
    values: CompletedValue,
    current: &OsStr,
    names: &NamesInReach,
    is_quoted: bool,
) -> Vec<CompletionCandidate> {
    let is_config = |path: &Path| path.extension().is_some_and(|end| end == "yaml" || end == "yml") && path.is_file();
    let paths = |completer: PathCompleter| completer.complete(current);
    let offered = match values {
        CompletedValue::Nothing => Vec::new(),
        CompletedValue::Configs => paths(PathCompleter::any().filter(is_config)),
        CompletedValue::Files => paths(PathCompleter::file()),
        CompletedValue::Folders => paths(PathCompleter::dir()),
        CompletedValue::Agents => named(names.agents(), current),
        CompletedValue::Models => named(names.models(), current),
        CompletedValue::ModelsAndPlugins => named(names.models_and_plugins(), current),
        CompletedValue::McpServers => named(names.mcp_servers(), current),
        CompletedValue::Apis => named(names.apis(), current),
        CompletedValue::Triggers => named(names.triggers(), current),
        CompletedValue::Plugins => named(names.plugin_ids(), current),
        CompletedValue::AgentPackages => named(names.agent_packages(), current),
        CompletedValue::PluginsAndPaths => {
            named(names.plugin_ids(), current).into_iter().chain(paths(PathCompleter::any())).collect()
        }
        CompletedValue::PluginKinds => named(plugin_kinds(), current),
        CompletedValue::Sessions => named(sessions(names), current),
        CompletedValue::Templates => named(template_names().collect(), current),
    };
    // The names are those of files and configs that may be somebody else's.
    let is_harmless = |candidate: &CompletionCandidate| {
        let value = candidate.get_value().to_str();
        value.is_some_and(|value| match is_quoted {
            true => !value.contains(acts_on_terminal),
            false => value.chars().all(is_plain),
        })
    };
    offered.into_iter().filter(is_harmless).collect()
}

fn named(names: Vec<DescribedName>, current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let candidate = |(at, (name, about)): (usize, DescribedName)| {
        let about = one_line(&about, limits::COMPLETED_DESCRIPTION_CHARS);
        // The order is that of the list: the newest session first.
        let candidate = CompletionCandidate::new(name).display_order(Some(at));
        candidate.help((!about.is_empty()).then(|| about.into()))
    };
    names.into_iter().filter(|(name, _)| name.starts_with(current)).enumerate().map(candidate).collect()
}

fn plugin_kinds() -> Vec<DescribedName> {
    PluginKind::ALL.map(|kind| (kind.name().to_owned(), String::new())).into()
}

/// Returns the sessions, with the name that stands for the newest.
fn sessions(names: &NamesInReach) -> Vec<DescribedName> {
    let sessions = names.sessions();
    let newest = (!sessions.is_empty()).then(|| ("last".to_owned(), "the newest session".to_owned()));
    newest.into_iter().chain(sessions).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, ffi::OsString, fs};

    use super::{super::names_in_reach::PersonPlaces, *};
    use crate::cli::command_line;

    /// Runs `check` on each argument with values of its own, with the name of its command.
    fn each_argument(command: &Command, name: &str, check: &mut impl FnMut(&str, &Arg)) {
        command
            .get_arguments()
            .filter(|argument| takes_other_values(argument))
            .for_each(|argument| check(name, argument));
        for below in command.get_subcommands() {
            each_argument(below, format!("{name} {}", below.get_name()).trim_start(), check);
        }
    }

    #[test]
    fn every_argument_has_values_and_every_row_an_argument() {
        let (mut without, mut found) = (Vec::new(), BTreeSet::new());
        each_argument(&command_line::command(), "", &mut |command, argument| {
            let id = argument.get_id().as_str();
            match row_of(command, id) {
                Some(row) => drop(found.insert(row)),
                None => without.push(format!("{command}: {id}")),
            }
        });
        assert!(without.is_empty(), "no row for: {without:#?}");
        let idle = |at: &usize| !found.contains(at);
        let idle: Vec<_> =
            (0..ARGUMENTS.len()).filter(idle).map(|at| (ARGUMENTS[at].command, ARGUMENTS[at].argument)).collect();
        assert!(idle.is_empty(), "no argument for: {idle:?}");
    }

    fn offered(folder: &Path, line: &str, is_quoted: bool) -> Vec<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let names = Arc::new(NamesInReach::new(&words, folder, PersonPlaces::default()));
        let mut command = with_completed_values(command_line::command(), &names, is_quoted);
        let last = words.len() - 1;
        let found = clap_complete::engine::complete(&mut command, words, last, Some(folder)).unwrap();
        found.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn commands_options_and_fixed_values_are_offered() {
        let folder = tempfile::tempdir().unwrap();
        let of = |line: &str| offered(folder.path(), line, true);
        let commands = of("shelly-host ");
        assert!(["run", "doctor", "completions", "man"].iter().all(|name| commands.contains(&(*name).to_owned())));
        assert!(of("shelly-host provider ").starts_with(&["check".to_owned(), "help".to_owned()]));
        assert!(of("shelly-host run --ag").contains(&"--agent".to_owned()));
        assert_eq!(of("shelly-host run --output "), ["text", "json", "events"]);
        assert_eq!(of("shelly-host run --output=j"), ["--output=json"]);
        assert_eq!(of("shelly-host completions z"), ["zsh"]);
        assert_eq!(of("shelly-host init --template te"), ["team"]);
    }

    #[test]
    fn names_that_act_in_a_shell_or_terminal_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["plain", "$(touch it-ran)", "two words", "esc\\u001b[2J", "überprüfer"];
        let list: Vec<_> = names.iter().map(|name| format!("{{name: \"{name}\"}}")).collect();
        fs::write(folder.path().join("shelly.yaml"), format!("agents: [{}]\n", list.join(", "))).unwrap();
        let line = "shelly-host run --agent ";
        assert_eq!(offered(folder.path(), line, false), ["plain", "überprüfer"]);
        assert_eq!(offered(folder.path(), line, true), ["plain", "$(touch it-ran)", "two words", "überprüfer"]);
    }
}
