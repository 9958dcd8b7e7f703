//! Grants: which of its wishes a plugin gets, and what the user is told of the rest.

use std::{process::Command, sync::Arc};

use shelly_host::{
    agent::{AfterRunDecision, RunMiddleware, RunOutcome},
    app::{App, PreparedRun, Recording},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    chat::{ChatSnapshot, Media, MediaData, Message, Part, Role, ToolCall},
    config::Config,
    event::EventSink,
    plugin::{Plugin, PluginRunMiddleware, PluginTool},
    tool::ToolCx,
};

use super::{
    agent, cx, engine,
    guest::{self, Guest, SCRATCH},
    pack, run, told,
};
use crate::support::{Place, Ran};

/// The agent of this config, with the plugins of the tests and of the place.
pub async fn prepared(place: &Place, config: &str) -> PreparedRun {
    let config = Config::parse(config, place.path()).unwrap();
    let mut directories = vec![crate::PLUGIN_ROOT.into(), crate::GUEST_ROOT.into()];
    directories.extend(Some(place.path().join("plugins")).filter(|plugins| plugins.is_dir()));
    let cache = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let app = App::new(
        config,
        &directories,
        Some(cache),
        Arc::new(|_| None),
        ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default()),
    )
    .unwrap();
    app.agent(None, Some("offline-model"), Recording::Off).await.unwrap()
}

pub fn helper(plugin: &str) -> String {
    let providers = "providers: [{name: offline-model, kind: plugin, plugin: offline-model}]";
    format!("{providers}\nagents: [{{name: helper, plugins: {{{plugin}}}}}]")
}

#[tokio::test]
async fn effect_offers_tools_only_with_provide_tools() {
    const OTHERS: &str =
        "see-messages, see-arguments, see-results, note, edit-results, rewrite, hide-tools, ask-model, stop";
    let place = Place::new();
    let with = |powers: &str| helper(&format!("probe-hooks: {{powers: [{powers}]}}"));
    let refused = prepared(&place, &with(OTHERS)).await;
    assert_eq!(refused.entrant.agent().unwrap().tools.names().count(), 0);
    assert_eq!(
        refused.warnings,
        ["plugin `probe-hooks` has fewer capabilities than it requests; grant `powers: [provide-tools]` under \
          agents.helper.plugins.probe-hooks (without `provide-tools` its tools are not offered)"]
    );
    let given = prepared(&place, &with(&format!("provide-tools, {OTHERS}"))).await;
    assert_eq!(given.entrant.agent().unwrap().tools.names().collect::<Vec<_>>(), ["ping"]);
    assert_eq!(given.warnings, [""; 0]);
}

#[tokio::test]
async fn unused_grants_are_warned_of() {
    let place = Place::new();
    let grants = "files: [{path: .}], clock: true, random: true, chat: true, kv: run, powers: [note], on_failure: skip";
    let warnings = prepared(&place, &helper(&format!("count-text: {{{grants}}}"))).await.warnings;
    let place_of = "agents.helper.plugins.count-text";
    let in_vain = |what: &str| format!("{place_of} grants `{what}`, which the plugin does not request");
    let mut expected: Vec<_> = ["files", "clock", "random", "chat", "kv", "powers: [note]"].map(in_vain).into();
    expected.push(format!("{place_of} sets `on_failure`, which is only for effects and middleware"));
    assert_eq!(warnings, expected);

    let model =
        "providers: [{name: offline-model, kind: plugin, plugin: offline-model, clock: true}]\nagents: [{name: a}]";
    let expected = "providers.offline-model grants `clock`, which the plugin does not request";
    assert_eq!(prepared(&place, model).await.warnings, [expected]);
}

#[tokio::test]
async fn read_only_folder_for_a_writing_plugin_is_warned_of() {
    let place = Place::new();
    place.plugin_bytes("writer", "kinds = [\"tool\"]\nwants = { files = \"write\" }", &Guest::tool().component());
    let warnings = prepared(&place, &helper("writer: {files: [{path: ., mode: read}]}")).await.warnings;
    let line = "files: [{path: FOLDER, mode: write}]";
    let expected = format!(
        "plugin `writer` has fewer capabilities than it requests; grant `{line}` under agents.helper.plugins.writer"
    );
    assert_eq!(warnings, [expected]);
}

#[tokio::test]
async fn bare_run_leaves_out_a_plugin_that_fails_to_load() {
    let place = Place::new();
    place.plugin_bytes("moody", "kinds = [\"tool\"]", &Guest::tool().on("specs", "unreachable").component());
    let prepared = prepared(&place, "").await;
    assert!(prepared.entrant.agent().unwrap().tools.names().any(|name| name == "count_text"));
    let warning = prepared.warnings.iter().find(|warning| warning.contains("`moody`")).unwrap();
    assert!(warning.starts_with("ignoring plugin `moody`: plugin `moody` failed at load: "), "{warning}");
}

#[tokio::test]
async fn probe_failure_quotes_the_last_log_lines() {
    let mut guest = Guest::tool().import(guest::LOG);
    let entries = ["first", "second", "third", "panicked at src/lib.rs:7:5"].map(|entry| {
        let entry = guest.text(entry);
        format!("(call $log (i32.const 3) {entry})")
    });
    let guest = guest.on("specs", &format!("{} unreachable", entries.concat()));
    let error = pack(&["tool"], "", &guest.component()).load(engine()).await.err().unwrap();
    assert!(error.contains("log: second\nlog: third\nlog: panicked at src/lib.rs:7:5\n"), "{error}");
    assert!(!error.contains("first"), "the last ones are enough: {error}");
}

/// Traps unless messages are there and have parts.
fn must_see_parts() -> String {
    format!(
        "(call $read (i32.const 0) (i32.const -1) (i32.const {SCRATCH}))
         (if (i32.eqz (i32.load (i32.const {}))) (then unreachable))
         (if (i32.eqz (i32.load offset=16 (i32.load (i32.const {SCRATCH})))) (then unreachable))",
        SCRATCH + 4
    )
}

#[tokio::test]
async fn tool_sees_only_the_granted_parts_of_the_chat() {
    let guest = Guest::tool().import(guest::CHAT).attack(&must_see_parts()).component();
    for (wants, sees) in [("chat = true, powers = [\"see-messages\"]", true), ("chat = true", false)] {
        let plugin = pack(&["tool"], &format!("wants = {{ {wants} }}"), &guest).load(engine()).await.unwrap();
        assert_eq!(looks(&plugin).await, sees, "{wants}");
    }
}

/// Returns `true` if the tool completes a call in a conversation of one message.
async fn looks(plugin: &Arc<Plugin>) -> bool {
    let tool = PluginTool::all(plugin).next().unwrap();
    let chat = ChatSnapshot::from_messages(vec![Message::user("hello")]).unwrap();
    let cx = ToolCx { chat, ..ToolCx::new(cx(EventSink::none())) };
    let call = ToolCall { id: "c".into(), name: "t".into(), arguments: super::ATTACK.into(), meta: vec![] };
    tool.call(&cx, &call).await.is_ok()
}

#[tokio::test]
async fn run_middleware_has_no_chat_or_an_empty_one_if_multi_kind() {
    let looks = |kinds| {
        let look = format!(
            "(call $entries (i32.const 0) (i32.const -1) (i32.const {SCRATCH}))
             (if (i32.load (i32.const {})) (then unreachable))",
            SCRATCH + 4
        );
        Guest::of(kinds).import(guest::CHAT).on("before", &look).component()
    };
    let alone = pack(&["run-middleware"], "", &looks(&["run-middleware"]));
    let error = told(alone.package.as_ref().unwrap_err());
    let says =
        "imports `shelly:plugin/chat@0.1.0`, which is only for plugins of kind `effect` or `tool` or `coordinator`";
    assert!(error.contains(says), "{error}");

    let both = looks(&["effect", "run-middleware"]);
    let both = pack(&["effect", "run-middleware"], "effect = { phases = [\"before-model\"] }", &both);
    let plugin = both.load(engine()).await.unwrap();
    let (_, mut helper) = agent([shelly_host::model::ScriptedCompleter::text("done")]);
    helper.middleware.push(Arc::new(PluginRunMiddleware::new(&plugin).unwrap()));
    assert_eq!(run(&helper).await.0.unwrap().message.text_content(), "done");
}

#[tokio::test]
async fn run_middleware_may_return_the_media_of_the_reply() {
    /// SHA-256 of nothing.
    const ID: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let mut guest = Guest::of(&["run-middleware"]);
    let (kind, id) = (guest.image().text("image/png"), guest.image().text(ID));
    let [parts, count] = guest.image().list(9, &[[&[1][..], &kind, &[0, 0, 0], &[1], &id].concat()]);
    let guest = guest.answer("after", |image| image.words(&[0, 0, 1, 0, 0, 0, 2, parts, count, 0, 0, 0, 0]));
    let plugin = pack(&["run-middleware"], "", &guest.component()).load(engine()).await.unwrap();
    let middleware = PluginRunMiddleware::new(&plugin).unwrap();
    let media = Part::Media(Media { media_type: "image/png".into(), name: None, source: MediaData::Bytes([].into()) });
    let reply = Message { parts: vec![media.clone()], ..Message::text(Role::Assistant, "", "") };
    for (reply, comes_back) in [(reply, true), (Message::text(Role::Assistant, "", "none"), false)] {
        let outcome =
            RunOutcome { reply: Ok(reply), usage: Default::default(), duration: Default::default(), attempt: 0 };
        match middleware.after(&cx(EventSink::none()), &outcome, vec![]).await {
            Ok(AfterRunDecision::Replace(message)) => {
                assert_eq!((message.parts, comes_back), (vec![media.clone()], true))
            }
            Err(fault) => {
                assert!(!comes_back && fault.to_string().contains("this call has no attachment"), "{fault}");
            }
            Ok(_) => panic!("it replaces"),
        }
    }
}

/// The program with so many KiB of address space.
fn run_within(place: &Place, kib: u32, arguments: &[&str]) -> Ran {
    let program = place.command(arguments);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("ulimit -v {kib}; exec \"$@\""), "sh"])
        .arg(program.get_program())
        .args(program.get_args());
    shell.current_dir(place.path()).env_clear();
    shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    place.ran(shell.output().unwrap())
}

#[test]
fn plugins_run_with_little_address_space() {
    let place = Place::new();
    place.file("docs/a.txt", "one two three");
    place.file("shelly.yaml", helper("read-files: {files: [{path: docs, as: .}]}, count-text: "));
    let task = "How many words are in a.txt?";
    let ran = run_within(&place, 8_000_000, &["run", "--plugins", crate::PLUGIN_ROOT, task]);
    assert!(ran.code == 0 && ran.stdout.contains('3'), "{}", ran.shown());

    // The limits are the same there.
    let calls = "{provider: tool-call-for-ever, tool: grow, arguments: {mib: 200}}";
    let grants = "{files: [{path: docs}], clock: true, random: true}";
    let config = format!(
        "providers: [{{name: p, kind: plugin, plugin: probe-hooks, params: {calls}}}]
agents: [{{name: a, plugins: {{probe: {grants}}}, options: {{max_iterations: 1}}}}]"
    );
    place.file("shelly.yaml", config);
    let ran = run_within(&place, 8_000_000, &["run", "--plugins", crate::GUEST_ROOT, "--output", "events", "go"]);
    assert!(ran.stdout.contains("\"function\":\"tool.call\",\"outcome\":\"limit\""), "{}", ran.shown());

    // Without plugins nothing is reserved: the model's server is what is missing here.
    let closed =
        "providers: [{name: m, kind: openai, model: m, base_url: 'http://127.0.0.1:1/v1'}]\nagents: [{name: a}]";
    place.file("shelly.yaml", closed);
    let ran = run_within(&place, 4_000_000, &["run", "hi"]);
    assert_eq!(ran.code, 4, "{}", ran.shown());
}
