//! Completion in shells: the scripts in real shells, and what a completion reads and never does.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    PLUGIN_ROOT,
    support::{Place, Ran},
};

/// The program of these tests, as scripts call it.
const PROGRAM: &str = env!("CARGO_BIN_EXE_shelly-host-under-test");

/// A shell, and the script with which it completes a command line: `<line>` is the line, of which the last word is completed,
/// `<words>` its words in quotes, and `<last>` the position of the last, counted from 0.
struct TestedShell {
    name: &'static str,
    arguments: &'static [&'static str],
    completes: &'static str,
    /// The shell itself is asked, not only the function of the script.
    is_whole: bool,
}

const SHELLS: [TestedShell; 3] = [
    TestedShell {
        name: "bash",
        arguments: &["--norc", "--noprofile", "-c"],
        completes: "COMP_WORDS=(<words>); COMP_CWORD=<last>; COMP_TYPE=9\n\
                    _clap_complete_shelly_host shelly-host \"${COMP_WORDS[<last>]}\"\n\
                    printf '%s\\n' \"${COMPREPLY[@]}\"",
        is_whole: false,
    },
    TestedShell {
        name: "zsh",
        arguments: &["-f", "-c"],
        // Of the completion system of zsh, which needs a terminal, the script uses these two.
        completes: "_describe() { local name=$3; print -rl -- \"${(@P)name}\" }\n\
                    words=(<words>); (( CURRENT = <last> + 1 ))\n\
                    _clap_dynamic_completer_shelly_host",
        is_whole: false,
    },
    TestedShell { name: "fish", arguments: &["--no-config", "-c"], completes: "complete -C '<line>'", is_whole: true },
];

/// Returns `true` if the shell is installed; otherwise says which test is left out.
fn is_installed(shell: &str) -> bool {
    let found = Command::new(shell).args(["-c", "true"]).stdin(Stdio::null()).output().is_ok();
    if !found {
        eprintln!("left out: {shell} is not installed, so that its completions are not tried");
    }
    found
}

/// Runs a script in a shell, in the environment that the program has in this place.
fn in_shell(place: &Place, shell: &TestedShell, script: &str) -> Ran {
    let mut command = Command::new(shell.name);
    let program = place.command(&[]);
    let variables = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(shell.arguments).arg(script).current_dir(place.path()).env_clear().envs(variables);
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", place.path()).stdin(Stdio::null());
    place.ran(command.output().unwrap())
}

/// Returns what a shell offers for the last word of a command line, without descriptions.
fn offered(place: &Place, shell: &TestedShell, words: &[&str]) -> Vec<String> {
    let script = place.run(&["completions", shell.name]);
    assert_eq!((script.code, script.stderr.as_str()), (0, ""), "{}", script.shown());
    place.file("completions", script.stdout);
    let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let completes = shell.completes.replace("<words>", &quoted.join(" ")).replace("<line>", &words.join(" "));
    let completes = completes.replace("<last>", &(words.len() - 1).to_string());
    let register = if shell.name == "zsh" { "compdef() { print -r -- registered $2 >&2 }\n" } else { "" };
    let ran = in_shell(place, shell, &format!("{register}source ./completions\n{completes}"));
    let registered = if shell.name == "zsh" { "registered shelly-host\n" } else { "" };
    assert_eq!((ran.code, ran.stderr.as_str()), (0, registered), "{}: {}", shell.name, ran.shown());
    let without_description = |line: &str| {
        let value = line.split(['\t', ':']).next().unwrap_or_default();
        value.trim_end().to_owned()
    };
    ran.stdout.lines().map(without_description).filter(|value| !value.is_empty()).collect()
}

/// Returns the answer to a script's request, as every script makes it.
fn asked(place: &Place, shell: &str, words: &[&str]) -> Ran {
    let mut command = place.command(&[&["--"], words].concat());
    command.env("SHELLY_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    place.ran(command.output().unwrap())
}

/// A project with an agent, a team, a model, an MCP server and a session.
fn project() -> Place {
    let place = Place::new();
    place.file(
        "shelly.yaml",
        "providers: [{name: offline, kind: plugin, plugin: offline-model}]\n\
         mcp_servers: [{name: files, command: no-such-server}]\n\
         agents: [{name: ada, description: 'counts words'}, {name: adam}]\n\
         teams: [{name: desk, members: [ada, adam]}]\n",
    );
    let task = ["run", "--plugins", PLUGIN_ROOT, "--session", "release", "How many words are in 'one two'?"];
    let ran = place.run(&task);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    place
}

#[test]
fn installed_shells_complete_commands_and_names() {
    let place = project();
    place.file("conf/other.yaml", "agents: [{name: bob}]\n");
    for shell in SHELLS.iter().filter(|shell| is_installed(shell.name)) {
        let of = |words: &[&str]| offered(&place, shell, words);
        assert_eq!(of(&["shelly-host", "ses"]), ["session"], "{}", shell.name);
        assert_eq!(of(&["shelly-host", "run", "--agent", "ad"]), ["ada", "adam"], "{}", shell.name);
        assert_eq!(of(&["shelly-host", "run", "--agent", ""]), ["ada", "adam", "desk"], "{}", shell.name);
        assert_eq!(of(&["shelly-host", "provider", "check", "off"]), ["offline"], "{}", shell.name);
        assert_eq!(of(&["shelly-host", "mcp", "login", "f"]), ["files"], "{}", shell.name);
        assert_eq!(of(&["shelly-host", "session", "show", "rel"]), ["release"], "{}", shell.name);
        assert_eq!(of(&["shelly-host", "session", "show", "la"]), ["last"], "{}", shell.name);
        let certify = ["shelly-host", "plugin", "certify", "--plugins", PLUGIN_ROOT, "count-t"];
        assert_eq!(of(&certify), ["count-text"], "{}", shell.name);
        let other = ["shelly-host", "run", "--config", "conf/other.yaml", "--agent", ""];
        assert_eq!(of(&other), ["bob"], "{}", shell.name);
        assert_eq!(of(&["shelly-host", "run", "--output", "e"]), ["events"], "{}", shell.name);
        let files = of(&["shelly-host", "run", "--config", "conf/o"]);
        assert_eq!(files, ["conf/other.yaml"], "{}", shell.name);
    }
}

#[test]
fn zsh_script_in_fpath_answers_its_first_call() {
    let place = project();
    let zsh = &SHELLS[1];
    if !is_installed(zsh.name) {
        return;
    }
    let script = place.run(&["completions", "zsh"]);
    place.file("functions/_shelly-host", script.stdout);
    let first = format!(
        "fpath=({}/functions $fpath); autoload -Uz _shelly-host\ncompdef() {{ : }}\n\
         _describe() {{ local name=$3; print -rl -- \"${{(@P)name}}\" }}\n\
         words=(shelly-host run --agent ada); CURRENT=4\n_shelly-host",
        place.path().display()
    );
    let ran = in_shell(&place, zsh, &first);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.shown());
    assert_eq!(ran.stdout, "ada:counts words\nadam\n", "{}", ran.shown());
}

#[test]
fn whole_shell_is_asked_where_it_can_be() {
    let place = project();
    for shell in SHELLS.iter().filter(|shell| shell.is_whole && is_installed(shell.name)) {
        place.file("completions", place.run(&["completions", shell.name]).stdout);
        let ran = in_shell(&place, shell, "source ./completions; complete -C 'shelly-host run --agent ad'");
        assert_eq!(ran.stdout, "ada\tcounts words\nadam\n", "{}", ran.shown());
    }
}

#[test]
fn every_shell_is_answered_silently() {
    let place = project();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = asked(&place, shell, &["shelly-host", "run", "--agent", "de"]);
        assert_eq!((ran.code, ran.stdout.trim_end(), ran.stderr.as_str()), (0, "desk", ""), "{shell}: {}", ran.shown());
    }
    let unknown = place.run(&["completions", "tcsh"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("bash"), "{}", unknown.shown());
    // Somebody who exports the variable can still use the program.
    let mut exported = place.command(&["--version"]);
    let ran = place.ran(exported.env("SHELLY_COMPLETE", "bash").output().unwrap());
    assert!(ran.code == 0 && ran.stdout.starts_with("shelly-host "), "{}", ran.shown());
}

#[test]
fn completion_works_without_a_config_and_with_a_broken_one() {
    let words = ["shelly-host", "run", "--agent", ""];
    let place = Place::new();
    let none = asked(&place, "fish", &words);
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (0, "", ""), "{}", none.shown());
    assert!(asked(&place, "fish", &["shelly-host", "pl"]).stdout.starts_with("plugin"));
    for broken in ["agents: [", "agents: 7\n", "\u{0}"] {
        place.file("shelly.yaml", broken);
        let ran = asked(&place, "fish", &words);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""), "{broken:?}: {}", ran.shown());
    }
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["shelly.yaml"], "nothing is written");
}

#[test]
fn completion_runs_and_sends_nothing_of_a_project() {
    let server = crate::bad_input::Server::start(|_| crate::bad_input::answer("200 OK", "{}"));
    let place = Place::untrusted();
    let left = place.path().join("it-ran");
    let touch = format!("[touch, '{}']", left.display());
    place.file(
        "shelly.yaml",
        format!(
            "plugin_dirs: [plugins]\n\
             providers: [{{name: m, kind: openai, model: m, base_url: 'http://127.0.0.1:{}/v1', api_key_command: {touch}}}]\n\
             mcp_servers: [{{name: s, command: touch, args: ['{}']}}]\nagents: [{{name: 'ada$(touch it-ran)'}}, {{name: bob}}]\n",
            server.port,
            left.display()
        ),
    );
    place.plugin("mine", "kinds = [\"tool\"]\n", "(component)");
    for words in [
        &["shelly-host", "run", "--agent", ""][..],
        &["shelly-host", "run", "--model", ""],
        &["shelly-host", "mcp", "login", ""],
        &["shelly-host", "plugin", "inspect", ""],
        &["shelly-host", "provider", "check", ""],
        &["shelly-host", "session", "show", ""],
    ] {
        let ran = asked(&place, "bash", words);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{words:?}: {}", ran.shown());
        assert!(!ran.stdout.contains('$'), "a shell would run it: {}", ran.shown());
    }
    assert!(server.asked.lock().unwrap().is_empty() && !left.exists());
    // In bash itself, up to the command line.
    let bash = &SHELLS[0];
    assert_eq!(offered(&place, bash, &["shelly-host", "run", "--agent", ""]), ["bob"]);
    assert!(!left.exists());
}

#[test]
fn program_at_an_odd_path_is_refused_with_a_way_out() {
    let place = Place::new();
    let odd = place.path().join("my programs");
    fs::create_dir(&odd).unwrap();
    let program = odd.join("shelly-host");
    fs::hard_link(PROGRAM, &program).or_else(|_| fs::copy(PROGRAM, &program).map(drop)).unwrap();
    let ran = place.ran(Command::new(&program).args(["completions", "bash"]).env_clear().output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.shown());
    assert!(ran.stderr.contains("my programs") && ran.stderr.contains("PATH"), "{}", ran.shown());
    assert!(Path::new(PROGRAM).is_file());
}
