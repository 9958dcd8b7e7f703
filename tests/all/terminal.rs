//! The program at a real terminal: what is on the screen at the end, at several sizes and kinds of terminal.

use std::{
    fs,
    io::{Read, Write},
    num::NonZero,
    path::Path,
};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::json;

use crate::{
    PLUGIN_ROOT,
    bad_input::{FOUR, Server, answer},
    support::Place,
};

/// A run of the program at a terminal.
pub struct TerminalRun {
    pub code: u32,
    /// The lines on the screen and those that have scrolled away, without blank ones at the end.
    pub lines: Vec<String>,
    /// All that was written.
    pub bytes: Vec<u8>,
}

/// Runs a shell command at a terminal of this width. In it `shelly-host` is the program.
pub fn run_at(place: &Place, columns: u16, variables: &[(&str, &str)], shell: &str) -> TerminalRun {
    typing_at(place, columns, variables, shell, None)
}

/// Runs a shell command, and types a text once when another one is on the screen.
pub fn typing_at(
    place: &Place,
    columns: u16,
    variables: &[(&str, &str)],
    shell: &str,
    mut typing: Option<(&str, &str)>,
) -> TerminalRun {
    let pty =
        native_pty_system().openpty(PtySize { rows: 24, cols: columns, pixel_width: 0, pixel_height: 0 }).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_shelly-host-under-test"));
    let mut command = CommandBuilder::new("/bin/sh");
    command.args(["-c", &format!("alias shelly-host='{}'\n{shell}", program.display())]);
    command.cwd(place.path());
    command.env_clear();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    command.env("SHELLY_CACHE_DIR", cache);
    command.env("XDG_STATE_HOME", place.path().join("state"));
    command.env("PATH", "/usr/bin:/bin");
    for (name, value) in [("TERM", "xterm-256color")].iter().chain(variables) {
        command.env(name, value);
    }
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let (mut reader, mut writer) = (pty.master.try_clone_reader().unwrap(), pty.master.take_writer().unwrap());
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    // A terminal whose last program has ended reads as an error.
    while let Ok(read @ 1..) = reader.read(&mut piece) {
        bytes.extend(&piece[..read]);
        if let Some((prompt, answer)) = typing
            && String::from_utf8_lossy(&bytes).contains(prompt)
        {
            writer.write_all(answer.as_bytes()).unwrap();
            typing = None;
        }
    }
    let code = child.wait().unwrap().exit_code();
    let count = |number| NonZero::new(number).unwrap();
    let mut parser = vt100::Parser::new(count(2_000), count(columns), 0);
    parser.process(&bytes);
    let mut lines: Vec<_> = parser.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
    lines.truncate(lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1));
    TerminalRun { code, lines, bytes }
}

/// A folder with an agent that reads a file and answers in Markdown.
fn place() -> Place {
    let place = Place::new();
    place.file("notes.md", "one two three\n");
    let config = format!(
        r##"plugin_dirs: ['{PLUGIN_ROOT}']
providers:
  - name: script
    kind: plugin
    plugin: scripted-model
    params:
      replies:
        - calls: [{{tool: read_file, arguments: {{path: notes.md}}}}]
        - "# Found\n\nThe note has **three** words:\n\n- one\n- two\n- three\n"
agents:
  - name: reader
    provider: script
    plugins: {{read-files: {{files: [{{path: ., mode: read}}]}}}}"##
    );
    place.file("shelly.yaml", config);
    place
}

/// Its answer.
const ANSWER: &str = "# Found\n\nThe note has **three** words:\n\n- one\n- two\n- three\n";

const RUN: &str = "shelly-host run --trust --no-session 'Read the note.'";

/// Returns `true` if the output sets a colour or another style; moves of the cursor are none.
fn has_style(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.split("\x1b[").skip(1).any(|sequence| {
        let end = sequence.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(0);
        sequence[end..].starts_with('m') && !matches!(&sequence[..end], "" | "0")
    })
}

#[test]
fn answer_at_a_terminal_is_rendered_once() {
    for (columns, variables) in [(80, &[][..]), (40, &[("NO_COLOR", "1")]), (200, &[("COLORTERM", "truecolor")])] {
        let ran = run_at(&place(), columns, variables, RUN);
        let text = ran.lines.join("\n");
        assert_eq!(ran.code, 0, "{text}");
        assert_eq!(text.matches("Found").count(), 1, "{text}");
        assert_eq!(text.matches("three").count(), 2, "as text and in the list: {text}");
        assert!(ran.lines.iter().any(|line| line.starts_with("✓ read_file notes.md (")), "{text}");
        // A narrow terminal breaks the summary.
        let end = ran.lines.concat();
        assert!(end.contains("2 turns · ") && end.ends_with("tokens · cost unknown"), "{text}");
        assert!(!text.contains("Ctrl-C stops"), "the region has left the screen: {text}");
        let is_coloured = has_style(&ran.bytes);
        assert_eq!(is_coloured, variables != [("NO_COLOR", "1")], "{text}");
    }
}

#[test]
fn theme_of_the_person_colours_the_answer() {
    use std::os::unix::fs::PermissionsExt;
    let place = place();
    // The colours of a title in each theme.
    let (dark, light) = ("38;2;130;170;255;1", "38;2;11;87;208;1");
    let settings = place.path().join("settings");
    let run = |theme: &str, variables: &[(&str, &str)]| {
        let path = place.file("settings/shelly-host/config.yaml", format!("theme: {theme}\n"));
        for (made, mode) in [(path.as_path(), 0o600), (path.parent().unwrap(), 0o700), (&settings, 0o700)] {
            fs::set_permissions(made, fs::Permissions::from_mode(mode)).unwrap();
        }
        let own = [("COLORTERM", "truecolor"), ("XDG_CONFIG_HOME", settings.to_str().unwrap())];
        run_at(&place, 80, &[&own[..], variables].concat(), RUN)
    };
    for (theme, variables, colour) in [
        ("dark", &[][..], Some(dark)),
        ("light", &[], Some(light)),
        ("none", &[], None),
        ("dark", &[("SHELLY_THEME", "light")], Some(light)),
        ("none", &[("SHELLY_THEME", "dark")], Some(dark)),
        ("dark", &[("SHELLY_THEME", "none")], None),
        ("dark", &[("SHELLY_THEME", "light"), ("NO_COLOR", "1")], None),
    ] {
        let ran = run(theme, variables);
        let (text, bytes) = (ran.lines.join("\n"), String::from_utf8_lossy(&ran.bytes).into_owned());
        assert!(ran.code == 0 && text.contains("Found"), "{text}");
        for known in [dark, light] {
            assert_eq!(bytes.contains(known), colour == Some(known), "{theme} {variables:?} {known}: {text}");
        }
        assert_eq!(has_style(&ran.bytes), colour.is_some(), "{theme} {variables:?}: {text}");
    }
    let ran = run("dark", &[("SHELLY_THEME", "drak")]);
    let text = ran.lines.join("\n");
    assert!(ran.code == 2 && text.contains("there is no theme `drak`") && text.contains("SHELLY_THEME"), "{text}");
}

#[test]
fn dumb_terminal_gets_plain_lines() {
    let ran = run_at(&place(), 80, &[("TERM", "dumb")], RUN);
    let text = ran.lines.join("\n");
    assert_eq!(ran.code, 0, "{text}");
    assert!(!ran.bytes.contains(&0x1b), "{text}");
    assert_eq!(text.matches("# Found").count(), 1, "{text}");
    assert!(text.contains("turn 1: the model calls a tool"), "{text}");
}

#[test]
fn quiet_run_prints_the_answer_alone() {
    let place = place();
    let ran = place.run(&["run", "--no-session", "--quiet", "Read the note."]);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, ANSWER, "config shelly.yaml\n"), "{}", ran.shown());
    let terminal = run_at(&place, 80, &[], &format!("{RUN} --quiet"));
    let lines: Vec<_> = terminal.lines.iter().filter(|line| !line.is_empty()).collect();
    assert!(terminal.code == 0 && lines.len() == 6, "{:?}", terminal.lines);
}

#[test]
fn piped_answer_is_plain_and_progress_stays_on_the_terminal() {
    let place = place();
    let ran = run_at(&place, 80, &[], &format!("{RUN} >answer.md; echo done $?"));
    let text = ran.lines.join("\n");
    assert!(text.contains("✓ read_file") && text.contains("done 0") && !text.contains("Found"), "{text}");
    let answer = fs::read_to_string(place.path().join("answer.md")).unwrap();
    assert_eq!(answer, ANSWER);
}

/// Writes a config whose agent says something before it calls its tool.
fn talks(place: &Place, price: &str) {
    let config = format!(
        r#"plugin_dirs: ['{PLUGIN_ROOT}']
providers:
  - name: script
    kind: plugin
    plugin: scripted-model
    {price}
    params:
      replies:
        - {{say: I look., calls: [{{tool: read_file, arguments: {{path: notes.md}}}}]}}
        - Four.
agents:
  - name: reader
    provider: script
    plugins: {{read-files: {{files: [{{path: ., mode: read}}]}}}}
"#
    );
    place.file("notes.md", "one two three\n");
    place.file("shelly.yaml", config);
}

#[test]
fn streamed_text_includes_what_precedes_calls() {
    let place = Place::new();
    talks(&place, "");
    let run = |more: &[&str]| place.run(&[&["run", "--no-session"], more, &["Read the note."]].concat());
    assert_eq!(run(&[]).stdout, "Four.\n");
    let ran = run(&["--stream"]);
    assert_eq!((ran.code, &*ran.stdout), (0, "I look.\n\nFour.\n"), "{}", ran.shown());
}

#[test]
fn max_cost_needs_prices_and_bounds_the_run() {
    let place = Place::new();
    for (price, most, code, says) in [
        // A plugin that reaches no server costs nothing; for requests of another one somebody may send a bill.
        ("", "1", 0, ""),
        ("http: ['http://127.0.0.1:9']", "1", 2, "the price of the model scripted-model is unknown"),
        ("price: {input: 1, output: 1}", "1", 0, ""),
        ("price: {input: 1000000, output: 1000000}", "0.01", 1, "budget"),
        ("", "0", 2, "the cost must be more than 0"),
        ("", "much", 2, "US dollars"),
    ] {
        talks(&place, price);
        let ran = place.run(&["run", "--no-session", "--max-cost", most, "Read the note."]);
        assert!(ran.code == code && ran.stderr.contains(says), "{price} {most}: {}", ran.shown());
    }
}

#[test]
fn resumed_session_takes_the_display_flags() {
    let place = Place::new();
    talks(&place, "price: {input: 1, output: 1}");
    assert_eq!(place.run(&["run", "--session", "s", "Read the note."]).code, 0);
    let ran = place.run(&["session", "resume", "s", "--quiet", "--max-cost", "1", "And again."]);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "Four.\n", "config shelly.yaml\n"), "{}", ran.shown());
    let ran = place.run(&["session", "resume", "s", "--stream", "And again."]);
    assert!(ran.code == 0 && ran.stdout == "I look.\n\nFour.\n", "{}", ran.shown());
}

#[test]
fn index_takes_the_display_flags() {
    let place = Place::new();
    talks(&place, "price: {input: 1, output: 1}");
    for flags in [&["--quiet", "--max-cost", "1"][..], &["--stream"]] {
        let ran = place.run(&[&["index", "--trust", "--agent", "reader"], flags].concat());
        assert_ne!(ran.code, 2, "{}", ran.shown());
    }
}

#[test]
fn no_with_words_tells_the_agent_what_to_do_instead() {
    let place = place();
    // A scripted model would make the same call again after the words of a person.
    let model = Server::start(|request| {
        let call = json!({"id": "1", "type": "function", "function": {"name": "read_file", "arguments": "{\"path\":\"notes.md\"}"}});
        match request.contains("look at the other one") {
            true => answer("200 OK", FOUR),
            false => answer(
                "200 OK",
                &json!({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}).to_string(),
            ),
        }
    });
    let uses = "{name: helper, plugins: {read-files: {files: [{path: ., mode: read}], confirm: true}}}";
    let config = model.config("").replace("{name: helper}", uses);
    place.file("shelly.yaml", format!("plugin_dirs: ['{PLUGIN_ROOT}']\n{config}"));
    let shell = "shelly-host run --trust 'Read the note.'";
    let ran = typing_at(&place, 80, &[], shell, Some(("allow? [y]es, once;", "n look at the other one\n")));
    let text = ran.lines.join("\n");
    assert!(ran.code == 0 && text.contains("after n you may say what to do instead"), "{text}");
    assert!(text.contains("Four."), "{text}");
    assert!(text.contains("✗ read_file"), "{text}");
    let state = place.path().join("state");
    let mut command = place.command(&["session", "show", "last"]);
    let shown = place.ran(command.env("XDG_STATE_HOME", state).output().unwrap());
    assert!(shown.stdout.contains("look at the other one"), "{}", shown.shown());
}

#[test]
fn mcp_server_at_a_terminal_says_that_it_waits() {
    let ran = typing_at(&Place::new(), 80, &[], "shelly-host mcp", Some(("waiting for an MCP client", "\x03")));
    let text = ran.lines.join("\n");
    assert!(text.contains("waiting for an MCP client") && text.contains("--http :8321"), "{text}");
}

#[test]
fn init_asks_for_a_template_only_if_it_can_write() {
    let place = Place::new();
    place.file(".shelly/context.md", "mine");
    let ran = typing_at(&place, 80, &[], "shelly-host init", Some(("which template?", "1\n")));
    let text = ran.lines.join("\n");
    assert!(ran.code == 2 && text.contains("nothing was written"), "{text}");
    assert!(!text.contains("which template?"), "{text}");
}

#[test]
fn consent_is_asked_at_the_terminal_if_input_is_a_pipe() {
    for (typed, code) in [("y\n", 0), ("n\n", 2)] {
        let place = place();
        let shell = "echo the input | shelly-host run --no-session 'Read the note.'";
        let ran = typing_at(&place, 80, &[], shell, Some(("(Enter: no): ", typed)));
        let text = ran.lines.join("\n");
        assert_eq!(ran.code, code, "{text}");
        assert_eq!(text.contains("Found"), code == 0, "{text}");
    }
}
