//! Ceilings: an agent that is started may do no more than its parent may pass on, in whichever way it is started.

use std::{collections::HashMap, os::unix::fs::symlink, path::Path, sync::Arc};

use serde_json::{Value, json};
use shelly_host::{
    app::{App, Recording},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    capability::FileAccess,
    chat::{Chat, Message},
    config::Config,
    event::{Event, EventSink, RunCx},
    plugin::{Certificate, CertifiedImport, ImportState, PluginKind, PluginPackage},
};

use crate::{
    bad_input::{Server, answer},
    hostile::guest::{CLOCK, Guest},
    support::Place,
};

/// The calls of an agent, one after the other; it then answers with the result of the last one.
type Calls<'a> = &'a [(&'a str, Value)];

/// A model that makes of each agent, known by its instructions, what is written here.
fn scripted(agents: &[(&str, Calls<'_>)]) -> Server {
    let agents: HashMap<String, Vec<(String, String)>> = agents
        .iter()
        .map(|(name, calls)| {
            let calls = calls.iter().map(|(tool, arguments)| ((*tool).to_owned(), arguments.to_string()));
            ((*name).to_owned(), calls.collect())
        })
        .collect();
    Server::start(move |request| {
        let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let system = messages[0]["content"].as_str().unwrap();
        let (_, calls) = agents.iter().find(|(name, _)| system.contains(&format!("I am {name}."))).unwrap();
        let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
        let (message, stop) = match calls.get(turn) {
            Some((name, arguments)) => {
                let function = json!({ "name": name, "arguments": arguments });
                let call = json!({ "id": format!("c{turn}"), "type": "function", "function": function });
                (json!({ "tool_calls": [call] }), "tool_calls")
            }
            None => {
                let said = messages.iter().rev().find(|message| message["role"] == "tool");
                (json!({ "content": said.map_or("nothing".into(), |said| said["content"].clone()) }), "stop")
            }
        };
        let choice = json!({ "message": message, "finish_reason": stop });
        let usage = json!({ "prompt_tokens": 1, "completion_tokens": 1 });
        answer("200 OK", &json!({ "choices": [choice], "usage": usage }).to_string())
    })
}

fn task(agent: &str) -> (&'static str, Value) {
    ("delegate", json!({ "tasks": [{ "agent": agent, "task": "do it", "context": "all" }] }))
}

fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({ "path": path }))
}

/// Returns the answer of the first agent of the config, and all events, a line each.
async fn outcome(place: &Place, agents: &str, script: &[(&str, Calls<'_>)]) -> (String, Vec<String>) {
    let server = scripted(script);
    let model = format!("{{name: m, kind: openai, model: m, base_url: 'http://127.0.0.1:{}/v1'}}", server.port);
    let config = Config::parse(&format!("providers: [{model}]\nagents:\n{agents}"), place.path()).unwrap();
    let mut plugins = vec![crate::PLUGIN_ROOT.into(), crate::GUEST_ROOT.into()];
    plugins.extend(Some(place.path().join("plugins")).filter(|plugins| plugins.is_dir()));
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let app = App::new(config, &plugins, Some(cache), Arc::new(|_| None), broker).unwrap();
    let prepared = app.agent(None, None, Recording::Off).await.unwrap();
    let (events, mut stream) = EventSink::channel();
    let cx = RunCx::new(Arc::clone(prepared.entrant.runner().name())).with_events(events);
    let running = async {
        let cx = cx;
        prepared
            .entrant
            .agent()
            .unwrap()
            .run(&cx, &Chat::new(), vec![Message::user("go")])
            .await
            .unwrap()
            .message
            .text_content()
    };
    let hearing = async {
        let mut told = Vec::new();
        while let Some(event) = stream.next_event().await {
            // What is decided is told in few words, whatever plugins say of themselves.
            let is_long = |text: &str| text.len() > 1_000;
            assert!(!matches!(&event, Event::CapabilityDecided { capability, .. } if is_long(capability)), "{event:?}");
            told.push(serde_json::to_string(&event).unwrap());
        }
        told
    };
    tokio::join!(running, hearing)
}

fn place() -> Place {
    let place = Place::new();
    place.file("docs/open.txt", "anybody reads this");
    place.file("docs/sub/deep.txt", "this too");
    place.file("private/secret.txt", "only the reader itself reads this");
    place
}

const READER: &str = "  - name: reader\n    instructions: I am reader.\n    plugins:\n      \
                      read-files: {files: [{path: docs, as: docs}, {path: private, as: private}]}\n";

fn lead(delegable: &str) -> String {
    format!(
        "  - name: lead\n    instructions: I am lead.\n    options: {{max_delegation_depth: 2}}\n    \
         delegable: {delegable}\n{READER}"
    )
}

/// Returns the answer of the reader under a ceiling of the lead, and all events.
async fn read_under(place: &Place, delegable: &str, path: &str) -> (String, Vec<String>) {
    outcome(place, &lead(delegable), &[("lead", &[task("reader")]), ("reader", &[read(path)])]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn started_agent_is_limited_to_its_parents_delegable_grants() {
    let place = place();
    let secret = "only the reader itself";
    // Without a word of it the reader may what it may.
    let (said, told) = read_under(&place, "{}", "private/secret.txt").await;
    assert!(said.contains(secret), "{said}");
    assert!(told.iter().all(|event| !event.contains(r#""allowed":false"#)), "{told:?}");
    // Its own `use` holds whoever starts it.
    let bounded = format!("{READER}    use: {{files: [{{path: docs}}]}}\n");
    let (said, _) = outcome(&place, &bounded, &[("reader", &[read("private/secret.txt")])]).await;
    assert!(!said.contains(secret), "{said}");
    // Less: the folder is not there, the other one is.
    let docs = "{grant: {files: [{path: docs}]}}";
    let (said, told) = read_under(&place, docs, "private/secret.txt").await;
    assert!(!said.contains(secret) && said.contains("private/secret.txt"), "{said}");
    let line = format!("files: [{{path: {}, mode: read}}]", place.path().join("private").display());
    let refused = |event: &String| event.contains(r#""event":"capability_decided""#) && event.contains(&line);
    let refused = told.iter().find(|event| refused(event)).unwrap();
    assert!(refused.contains(r#""allowed":false,"rule":"agents.lead.delegable.grant""#), "{refused}");
    assert!(!said.contains("delegable") && !said.contains("lead"), "a model is told nothing of it: {said}");
    assert!(read_under(&place, docs, "docs/open.txt").await.0.contains("anybody reads this"));
    // A part of a folder.
    let part = "{grant: {files: [{path: docs/sub}, {path: docs/gone}]}}";
    assert!(read_under(&place, part, "docs/sub/deep.txt").await.0.contains("this too"));
    assert!(!read_under(&place, part, "docs/open.txt").await.0.contains("anybody reads this"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ceiling_drops_tool_plugins_but_never_guards() {
    let place = place();
    let (said, told) = read_under(&place, "{grant: {}}", "docs/open.txt").await;
    assert!(said.contains("tool not found") && !said.contains("anybody reads this"), "{said}");
    let told = told.iter().find(|event| event.contains("runs without plugin `read-files`")).unwrap();
    assert!(told.contains("grant it under agents.lead.delegable.grant in the config"), "{told}");

    // What watches over an agent is not taken from it.
    let guard = Guest::of(&["effect"]).import(CLOCK).with("(table funcref (elem $now))").component();
    place.plugin_bytes(
        "guard",
        "kinds = [\"effect\"]\nwants = {clock = true}\neffect = {phases = [\"before-model\"]}",
        &guard,
    );
    let guarded = "  - {name: lead, instructions: I am lead., options: {max_delegation_depth: 1}, delegable: {grant: {}}}\n  \
                   - {name: worker, instructions: I am worker., plugins: {guard: {clock: true}}}\n";
    let (said, told) = outcome(&place, guarded, &[("lead", &[task("worker")]), ("worker", &[])]).await;
    assert!(said.contains("cannot be started by this agent") && !said.contains("delegable"), "{said}");
    let told = told.iter().find(|event| event.contains("lead cannot start agent `worker`")).unwrap();
    assert!(told.contains("grant it under agents.lead.delegable.grant in the config: `clock: true`"), "{told}");

    // Nor the powers that it watches with, however it is started.
    let looping = "plugins: {loop-detect: {powers: [see-messages, see-arguments, note, stop]}}";
    let lines = |delegable: &str| {
        format!(
            "  - {{name: lead, instructions: I am lead., options: {{max_delegation_depth: 3}}, {looping}{delegable}}}\n  \
             - {{name: worker, instructions: I am worker., options: {{max_delegation_depth: 3}}}}\n"
        )
    };
    let lead: Calls<'_> = &[task("worker")];
    let (said, _) = outcome(&place, &lines(""), &[("lead", lead), ("worker", &[task("lead")])]).await;
    assert!(!said.contains("cannot be started"), "its own powers come back with it: {said}");
    let files = ", delegable: {grant: {files: [{path: docs}]}}";
    let (said, told) = outcome(&place, &lines(files), &[("lead", lead), ("worker", &[task("lead")])]).await;
    assert!(said.contains("agent `lead` cannot be started by this agent"), "{said}");
    let told =
        told.iter().find(|event| event.contains("cannot start agent `lead`")).unwrap_or_else(|| panic!("{told:?}"));
    assert!(told.contains("powers: [") && told.contains("under agents.lead.delegable.grant"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ceiling_holds_for_every_way_to_start_an_agent() {
    let place = place();
    let secret = "only the reader itself";
    let docs = "{grant: {files: [{path: docs}]}}";
    let agents = |hub: &str| {
        format!(
            "{}  - name: hub\n    instructions: I am hub.\n    options: {{max_delegation_depth: 2, max_handoffs: 1}}\n    {hub}\n",
            lead(docs)
        )
    };
    let handoff = ("handoff", json!({ "target_agent": "reader", "reason": "r", "context": "c" }));
    for (way, by, hub) in [
        ("through another agent that passes on all", task("reader"), ""),
        (
            "through one whose config says so",
            task("reader"),
            "delegable: {grant: {files: [{path: docs}, {path: private}]}}",
        ),
        ("by handing over", handoff.clone(), ""),
    ] {
        let script: [(&str, Calls<'_>); 3] =
            [("lead", &[task("hub")]), ("hub", &[by]), ("reader", &[read("private/secret.txt")])];
        let (said, told) = outcome(&place, &agents(hub), &script).await;
        assert!(!said.contains(secret), "{way}: {said}");
        let began = told.iter().any(|event| event.contains(r#""event":"tool_started""#) && event.contains("read_file"));
        assert!(began, "{way}: the reader was started: {said}\n{}", told.join("\n"));
    }
    // Whoever hands over passes on no more than it may, though it was started without a bound.
    let hub = "  - name: hub\n    instructions: I am hub.\n    options: {max_handoffs: 1}\n";
    let hub = format!("{}{hub}    delegable: {docs}\n", lead("{}"));
    let script: [(&str, Calls<'_>); 3] =
        [("lead", &[task("hub")]), ("hub", &[handoff]), ("reader", &[read("private/secret.txt")])];
    let (said, _) = outcome(&place, &hub, &script).await;
    assert!(!said.contains(secret), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delegable_bounds_agents_and_budget() {
    let place = place();
    let agents = format!(
        "{}  - name: other\n    instructions: I am other.\n",
        lead("{agents: [other], budget: {tool_calls: 1}}")
    );
    let script: [(&str, Calls<'_>); 3] =
        [("lead", &[task("reader"), ("list_agents", json!({}))]), ("reader", &[read("docs/open.txt")]), ("other", &[])];
    let (said, told) = outcome(&place, &agents, &script).await;
    assert!(said.contains("other") && !said.contains("reader"), "{said}");
    let delegated = told.iter().filter(|event| event.contains(r#""event":"run_started""#)).count();
    assert_eq!(delegated, 1, "only the lead ran: {told:?}");

    let budget = lead("{budget: {tool_calls: 1}}");
    let twice: Calls<'_> = &[read("docs/open.txt"), read("docs/sub/deep.txt")];
    let (said, _) = outcome(&place, &budget, &[("lead", &[task("reader")]), ("reader", twice)]).await;
    assert!(!said.contains("this too"), "one call and no more: {said}");
}

/// A folder that is a part of another one is opened when an agent is started: what a plugin may have put in its place
/// since then is not followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_in_place_of_a_delegable_folder_is_not_followed() {
    let place = place();
    place.file("docs/part/here.txt", "here");
    // The config is read while it is a folder; what it leads to later does not matter.
    let config = lead("{grant: {files: [{path: docs/part}]}}");
    let swap = || {
        std::fs::rename(place.path().join("docs/part"), place.path().join("docs/was")).unwrap();
        symlink("../private", place.path().join("docs/part")).unwrap();
    };
    let model = scripted(&[("lead", &[task("reader")]), ("reader", &[read("docs/part/secret.txt")])]);
    let provider = format!("{{name: m, kind: openai, model: m, base_url: 'http://127.0.0.1:{}/v1'}}", model.port);
    let config = Config::parse(&format!("providers: [{provider}]\nagents:\n{config}"), place.path()).unwrap();
    let plugins = [crate::PLUGIN_ROOT.into()];
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let app = App::new(config, &plugins, Some(cache), Arc::new(|_| None), broker).unwrap();
    let prepared = app.agent(None, None, Recording::Off).await.unwrap();
    swap();
    let answer = prepared
        .entrant
        .agent()
        .unwrap()
        .run(&RunCx::new("lead"), &Chat::new(), vec![Message::user("go")])
        .await
        .unwrap();
    let said = answer.message.text_content();
    assert!(!said.contains("only the reader itself"), "{said}");
    assert!(said.contains("cannot be started by this agent"), "{said}");
}

/// A config in which a plugin is granted all of these, and its agent may use this, or its team, if it leads one.
fn bounded(place: &Place, plugin: &str, leads: bool, grants: &str, uses: &str) -> Certificate {
    let models = "providers: [{name: own, kind: openai, model: m}, {name: other, kind: openai, model: n}]";
    let held =
        "credentials: [{name: held, env: HELD, for: ['https://h']}, {name: other, env: HELD, for: ['https://h']}]";
    let who = match leads {
        true => format!(
            "agents: [{{name: member}}]\nteams: [{{name: a, members: [member], use: {{{uses}}}, coordinator: {{kind: {plugin}, {grants}}}}}]"
        ),
        false => format!("agents: [{{name: a, use: {{{uses}}}, plugins: {{{plugin}: {{{grants}}}}}}}]"),
    };
    let text = format!("{models}\n{held}\nprograms: {{prog: {{}}}}\n{who}");
    let config = Config::parse(&text, place.path()).unwrap_or_else(|report| panic!("{text}: {report}"));
    let own = place.path().join("plugins");
    let plugins = [Some(crate::PLUGIN_ROOT.into()), Some(crate::GUEST_ROOT.into()), own.is_dir().then_some(own)];
    let plugins: Vec<_> = plugins.into_iter().flatten().collect();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let app = App::new(config, &plugins, Some(cache), Arc::new(|_| None), broker).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(app.certify(None, plugin)).unwrap()
}

/// Each grant of each plugin, taken away by itself: it does not start, or the capability is gone.
#[test]
fn ceiling_bounds_every_capability() {
    let place = place();
    let folder = place.path().join("docs");
    let files = |mode: &str| format!("files: [{{path: docs, mode: {mode}}}]");
    let mut checked = 0;
    let roots = [crate::PLUGIN_ROOT, crate::GUEST_ROOT].map(|root| std::fs::read_dir(root).unwrap());
    for entry in roots.into_iter().flatten() {
        let package = PluginPackage::read(&entry.unwrap().path()).unwrap();
        let (id, wants) = (&package.manifest.id, &package.manifest.wants);
        let mut grants = vec![];
        for (wanted, line) in [(wants.clock, "clock: true"), (wants.random, "random: true"), (wants.chat, "chat: true")]
        {
            grants.extend(wanted.then(|| line.to_owned()));
        }
        grants.extend(wants.kv.then(|| "kv: run".to_owned()));
        grants.extend(wants.files.map(|_| files("read")));
        grants.extend(wants.models.then(|| "models: [other]".to_owned()));
        let url = wants.http.rules().next().map_or_else(|| "https://h".into(), |rule| rule.url());
        grants.extend((!wants.http.is_empty()).then(|| format!("http: ['{url}']")));
        grants.extend(wants.credentials.then(|| "credentials: [held]".to_owned()));
        grants.extend(wants.programs.then(|| "programs: [prog]".to_owned()));
        let powers: Vec<_> = wants.powers.iter().map(ToString::to_string).collect();
        grants.extend((!powers.is_empty()).then(|| format!("powers: [{}]", powers.join(", "))));
        let all = grants.join(", ");
        let leads = package.manifest.kinds == [PluginKind::Coordinator];
        let who = if leads { "teams.a" } else { "agents.a" };
        let place_of = if leads { "teams.a.coordinator" } else { "agents.a.plugins" };
        let bounded = |grants: &str, uses: &str| bounded(&place, id, leads, grants, uses);
        let whole = bounded(&all, &all);
        assert!(whole.runs && whole.decisions.iter().all(|decision| decision.allowed), "{id}: {whole:?}");
        assert!(whole.imports.iter().all(|import| import.state != ImportState::Refused), "{id}: {whole:?}");
        for left_out in &grants {
            let rest: Vec<_> = grants.iter().filter(|grant| *grant != left_out).cloned().collect();
            for (grants, uses, rule) in [
                (rest.join(", "), all.clone(), format!("{place_of}.{id}")),
                (all.clone(), rest.join(", "), format!("{who}.use")),
            ] {
                let less = bounded(&grants, &uses);
                let refused: Vec<_> = less.decisions.iter().filter(|decision| !decision.allowed).collect();
                let capability = left_out.split(':').next().unwrap();
                assert!(!refused.is_empty(), "{id} without {left_out}: {less:?}");
                assert!(
                    refused.iter().all(|refused| refused.capability.starts_with(capability) && *refused.rule == *rule),
                    "{id} without {left_out}: {less:?}"
                );
                // Who imports it is not started, whoever does not, or has something powerless in its place, has it not.
                let imports = less
                    .imports
                    .iter()
                    .any(|import| import.capability == Some(capability) && import.state != ImportState::Powerless);
                assert_eq!(less.runs, !imports, "{id} without {left_out}: {less:?}");
                // Streams come with what is read and sent through them.
                let is_of_it = |import: &CertifiedImport| match import.capability {
                    None => import.name.starts_with("wasi:io/") && ["files", "http"].contains(&capability),
                    of => of == Some(capability),
                };
                let is_refused = |import: &CertifiedImport| match import.state {
                    ImportState::Powerless => true,
                    state => is_of_it(import) == (state == ImportState::Refused),
                };
                assert!(less.imports.iter().all(is_refused), "{id} without {left_out}: {less:?}");
                assert!(!less.grant.covers(&whole.grant) && whole.grant.covers(&less.grant), "{id}");
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked}");
    // Reading stays reading.
    let certificate = bounded(&place, "read-files", false, &files("write"), &files("read"));
    assert_eq!(certificate.grant.files.access(&folder), Some(FileAccess::Read));
}

#[test]
fn ceiling_narrows_http_grants() {
    let place = place();
    let wants =
        "kinds = [\"tool\"]\nwants = {http = [\"https://*.example.com\", \"http://nas.lan\"], credentials = true}";
    place.plugin_bytes("fetcher", wants, &Guest::tool().component());
    let grants = "http: [{url: 'https://*.example.com', methods: [GET, PUT]}, {url: 'http://nas.lan', \
                  networks: [10.0.0.0/8]}], credentials: [held, other]";
    let all = [
        "GET https://*.example.com",
        "PUT https://*.example.com",
        "GET http://nas.lan",
        "GET http://nas.lan in 10.0.0.0/8",
        "HEAD http://nas.lan",
        "HEAD http://nas.lan in 10.0.0.0/8",
    ];
    let lost =
        "http: [{url: http://nas.lan, networks: [10.0.0.0/8]}, {url: https://*.example.com, methods: [GET, PUT]}]";
    for (uses, left, credentials, refused) in [
        (grants, &all[..], &["held", "other"][..], &[][..]),
        (
            "http: ['https://a.example.com/v1'], credentials: [held]",
            &["GET https://a.example.com/v1"],
            &["held"],
            &[lost, "credentials: [other]"],
        ),
        (
            "http: [{url: 'https://a.example.com/v1', methods: ['*']}], credentials: [held]",
            &["GET https://a.example.com/v1", "PUT https://a.example.com/v1"],
            &["held"],
            &[lost, "credentials: [other]"],
        ),
        (
            "http: [{url: 'http://nas.lan', networks: [10.1.0.0/16]}], credentials: [other]",
            &[
                "GET http://nas.lan",
                "GET http://nas.lan in 10.1.0.0/16",
                "HEAD http://nas.lan",
                "HEAD http://nas.lan in 10.1.0.0/16",
            ],
            &["other"],
            &[
                // To its public addresses it may.
                "http: [{url: http://nas.lan, networks: [10.0.0.0/8]}, {url: https://*.example.com, methods: [GET, PUT]}]",
                "credentials: [held]",
            ],
        ),
        ("http: ['https://example.com']", &[], &[], &[lost, "credentials: [held, other]"]),
    ] {
        let certificate = bounded(&place, "fetcher", false, grants, uses);
        let grant = serde_json::to_value(&certificate.grant).unwrap();
        assert_eq!((&grant["http"], &grant["credentials"]), (&json!(left), &json!(credentials)), "{uses}");
        let told = certificate.decisions.iter().filter(|decision| !decision.allowed);
        let told: Vec<_> = told.map(|decision| (decision.capability.as_str(), &*decision.rule)).collect();
        let refused: Vec<_> = refused.iter().map(|line| (*line, "agents.a.use")).collect();
        assert_eq!(told, refused, "{uses}");
    }
}

#[test]
fn plugin_certify_prints_a_certificate() {
    let place = place();
    place.file("c.yaml", format!("agents:\n{READER}"));
    let certify = |more: &[&str]| {
        place.run(&[&["plugin", "certify", "--config", "c.yaml", "--plugins", crate::PLUGIN_ROOT], more].concat())
    };
    let issued = certify(&["read-files"]);
    let json: Value = serde_json::from_str(&issued.stdout).unwrap_or_else(|_| panic!("{}", issued.shown()));
    assert_eq!((issued.code, &json["runs"], &json["agent"]), (0, &true.into(), &"reader".into()), "{}", issued.shown());
    assert!(json["digest"].as_str().unwrap().starts_with("sha256:") && json["host"]["version"].is_string());
    assert_eq!(json["grant"]["files"][0], json!({ "path": "[DIR]/docs", "mode": "read" }));
    place.file("c.yaml", "agents: [{name: a, plugins: {read-files: }}]");
    let refused = certify(&["read-files", "--agent", "a"]);
    let json: Value = serde_json::from_str(&refused.stdout).unwrap_or_else(|_| panic!("{}", refused.shown()));
    assert_eq!((refused.code, &json["runs"]), (3, &false.into()), "{}", refused.shown());
    assert!(json["imports"].as_array().unwrap().iter().any(|import| import["state"] == "refused"));
    assert!(json["error"].as_str().unwrap().contains("needs `files`"), "{}", refused.shown());
    for (more, says) in [
        (&["count-text"][..], "no plugin `count-text`"),
        (&["read-files", "--agent", "b"], "no agent `b`"),
        (&["read-files", "--model", "m"], "no model `m`"),
    ] {
        let wrong = certify(more);
        assert!(wrong.code == 2 && wrong.stdout.contains(says) || wrong.stderr.contains(says), "{}", wrong.shown());
    }
}

#[test]
fn plugin_named_like_a_ceiling_is_not_mistaken_for_one() {
    let place = place();
    let needs_clock = Guest::tool().import(CLOCK).with("(table funcref (elem $now))").component();
    place.plugin_bytes("use", "kinds = [\"tool\"]\nwants = {clock = true}", &needs_clock);
    place.file("c.yaml", "agents: [{name: a, plugins: {use: }}]");
    let certify = || place.run(&["plugin", "certify", "use", "--config", "c.yaml", "--plugins", "plugins"]);
    let ran = certify();
    assert!(ran.code == 3 && ran.stdout.contains("which agent `a` does not grant it"), "{}", ran.shown());
    place.file("c.yaml", "agents: [{name: a, use: {}, plugins: {use: {clock: true}}}]");
    let ran = certify();
    assert!(ran.code == 3 && ran.stdout.contains("which `agents.a.use` does not allow"), "{}", ran.shown());
}

/// A tool that is an agent, and one of a plugin of the same name: the first of them is used, as far as it may be started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_tool_replaces_an_agent_tool_that_may_not_start() {
    let place = place();
    let agents = |delegable: &str| {
        format!(
            "  - {{name: lead, instructions: I am lead., options: {{max_delegation_depth: 1}}, delegable: {delegable}}}\n  \
             - name: worker\n    instructions: I am worker.\n    agent_tools: [{{agent: bob, name: read_file}}]\n    \
             plugins: {{read-files: {{files: [{{path: docs, as: docs}}]}}}}\n  - {{name: bob, instructions: I am bob.}}\n"
        )
    };
    let call = ("read_file", json!({ "path": "docs/open.txt", "task": "read" }));
    let script: [(&str, Calls<'_>); 3] = [("lead", &[task("worker")]), ("worker", &[call]), ("bob", &[])];
    for (delegable, reads) in [("{}", false), ("{agents: [worker]}", true), ("{agents: [worker, bob]}", false)] {
        let (said, told) = outcome(&place, &agents(delegable), &script).await;
        assert_eq!(said.contains("anybody reads this"), reads, "{delegable}: {said}");
        let is_told = told
            .iter()
            .any(|event| event.contains("runs without its tool `read_file`, because it may not start `bob`"));
        assert_eq!(is_told, reads, "{delegable}: {told:?}");
    }
    // The same where the other tool is one of the host, which comes first.
    let notes = agents("{agents: [worker]}")
        .replace("name: read_file", "name: list_notes")
        .replace("    plugins:", "    toolboxes: [notes]\n    plugins:");
    let script: [(&str, Calls<'_>); 2] = [("lead", &[task("worker")]), ("worker", &[("list_notes", json!({}))])];
    let (said, told) = outcome(&place, &notes, &script).await;
    assert!(!said.contains("tool not found"), "{said}");
    assert!(!told.iter().any(|event| event.contains("runs without its tool")), "it has none: {told:?}");
}
