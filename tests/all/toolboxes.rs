//! Toolboxes that are plugins, and the folders and servers that a user opens to their tools in the middle of a run.

mod at_once;
mod bounds;
mod served;

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use shelly_host::{
    app::{App, Recording},
    approval::{ApprovalBroker, ApprovalInbox, HeadlessPolicy, QuestionKind, TrustedSubjects, Verdict},
    chat::{Chat, Message},
    config::Config,
    event::{EventSink, RunCx},
    trust::TrustStore,
};
use tempfile::TempDir;

use crate::{
    bad_input::{Server, answer},
    support::Place,
};

/// The outcome of a run.
struct Came {
    /// The results that the model received, in order.
    results: Vec<String>,
    /// The questions to the user: the subject, and the details.
    asked: Vec<(String, String)>,
    /// The decisions about capabilities: the capability, whether it is allowed, and the rule.
    decided: Vec<(String, bool, String)>,
    warnings: Vec<String>,
}

/// A model that makes these calls, those of one list in one reply; then it answers.
fn model(replies: &[&[(&str, Value)]]) -> Server {
    let call = |at: usize, (name, arguments): &(&str, Value)| json!({"id": at.to_string(), "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
    let reply =
        |calls: &&[(&str, Value)]| -> Value { calls.iter().enumerate().map(|(at, one)| call(at, one)).collect() };
    let replies: Mutex<VecDeque<Value>> = Mutex::new(replies.iter().map(reply).collect());
    Server::start(move |_| {
        let (message, stop) = match replies.lock().unwrap().pop_front() {
            Some(calls) => (json!({ "tool_calls": calls }), "tool_calls"),
            None => (json!({ "content": "done" }), "stop"),
        };
        let choice = json!({ "message": message, "finish_reason": stop });
        answer(
            "200 OK",
            &json!({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}).to_string(),
        )
    })
}

/// A person who gives these answers, one after the other, and says no to all else.
async fn person(mut inbox: ApprovalInbox, verdicts: Vec<Verdict>, asked: Arc<Mutex<Vec<(String, String)>>>) {
    let mut verdicts = VecDeque::from(verdicts);
    while let Some(one) = inbox.next().await {
        let QuestionKind::Permission { subject, detail } = &one.question.kind else { panic!("{one:?}") };
        asked.lock().unwrap().push((subject.to_string(), detail.clone()));
        inbox.decide(one.id, verdicts.pop_front().unwrap_or(Verdict::No)).unwrap();
    }
}

/// The source of approval.
enum By {
    Person(Vec<Verdict>),
    Nobody(HeadlessPolicy),
}

/// Runs agents of a config (`MODEL` stands for the model) in `project`, a folder in which nothing is outside of `world`.
async fn run(world: &World, agents: &str, replies: &[&[(&str, Value)]], by: By) -> Came {
    run_from(&[crate::PLUGIN_ROOT.into()], world, agents, replies, by).await
}

/// Runs the agents with plugins from these directories.
async fn run_from(plugins: &[PathBuf], world: &World, agents: &str, replies: &[&[(&str, Value)]], by: By) -> Came {
    let server = model(replies);
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    let text = format!("providers: [{{name: m, kind: openai, base_url: '{url}', model: m}}]\nagents: {agents}\n");
    let config = Config::parse(&text, world.project()).unwrap_or_else(|report| panic!("{report}"));
    let (policy, verdicts) = match by {
        By::Person(verdicts) => (HeadlessPolicy::Never, Some(verdicts)),
        By::Nobody(policy) => (policy, None),
    };
    let broker = ApprovalBroker::new(policy, TrustedSubjects::default());
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let home = world.path("home").display().to_string();
    let environment = Arc::new(move |name: &str| (name == "HOME").then(|| home.clone()));
    let app = App::new(config, plugins, Some(cache), environment, broker.clone()).unwrap();
    let store = TrustStore::new(Some(world.path("state/trust.json")));
    broker.trust(app.standing(&store, true).unwrap().trusted().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let sits = verdicts.map(|verdicts| tokio::spawn(person(broker.attend().unwrap(), verdicts, Arc::clone(&asked))));
    let prepared = app.agent(None, None, Recording::Off).await.unwrap_or_else(|report| panic!("{report}"));
    let (events, mut stream) = EventSink::channel();
    let collected = tokio::spawn(async move {
        let mut decided = Vec::new();
        while let Some(event) = stream.next_event().await {
            let event = serde_json::to_value(event).unwrap();
            if event["event"] == "capability_decided" {
                let text = |key: &str| event[key].as_str().unwrap().to_owned();
                decided.push((text("capability"), event["allowed"] == true, text("rule")));
            }
        }
        decided
    });
    let cx = RunCx::new(Arc::clone(prepared.entrant.runner().name())).with_events(events);
    let outcome = prepared.entrant.agent().unwrap().run(&cx, &Chat::new(), vec![Message::user("go")]).await;
    outcome.unwrap_or_else(|error| panic!("{error}"));
    drop(cx);
    let warnings = prepared.warnings.clone();
    drop(prepared);
    if let Some(sits) = sits {
        sits.abort();
        // What was said for good is kept after whoever asked has gone on.
        let _ = sits.await;
    }
    let decided = collected.await.unwrap();
    let requests = server.asked.lock().unwrap();
    let results = requests.iter().flat_map(|request| {
        let request: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        let messages = request["messages"].as_array().unwrap();
        // Those that are new in this request.
        let newest = messages.iter().rev().take_while(|message| message["role"] == "tool").collect::<Vec<_>>();
        newest.into_iter().rev().map(|message| message["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    });
    let results = results.collect();
    let asked = asked.lock().unwrap().clone();
    Came { results, asked, decided, warnings }
}

/// A folder that holds a project, a home, and what lies beside them.
struct World(TempDir);

impl World {
    fn new() -> Self {
        let world = Self(TempDir::new().unwrap());
        for (name, text) in [
            ("project/notes.txt", "inside\n"),
            ("project/.shelly/local/notes/a.md", "x"),
            ("other/data.txt", "outside\n"),
            ("home/.ssh/id", "key"),
            ("home/work/a.txt", "work\n"),
            ("home/.local/state/shelly-host/session.key", "key"),
        ] {
            world.file(name, text);
        }
        world
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn project(&self) -> PathBuf {
        self.path("project")
    }

    fn permissions(&self) -> String {
        fs::read_to_string(self.path("project/.shelly/local/permissions.json")).unwrap_or_default()
    }

    fn read(&self, name: &str) -> (&'static str, Value) {
        ("fs_read", json!({ "path": self.path(name) }))
    }
}

const ADA: &str = "[{name: ada, toolboxes: [filesystem, search]}]";

#[test]
fn toolbox_is_the_shipped_plugin() {
    let place = Place::new();
    place.file("docs/a.txt", "needle\n");
    let list = [("fs_list", json!({"path": "docs"})), ("search_files", json!({"pattern": "**/*.txt"}))];
    let server = model(&[&list]);
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    let config = |toolboxes: &str| {
        format!(
            "providers: [{{name: m, kind: openai, base_url: '{url}', model: m}}]\n\
             agents: [{{name: ada, toolboxes: {toolboxes}}}]\n"
        )
    };
    place.file("shelly.yaml", config("[{name: filesystem, tools: [fs_list]}, search]"));
    let ran = place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "--output", "events", "go"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let asked = server.asked.lock().unwrap();
    assert!(asked[0].contains("fs_list") && !asked[0].contains("fs_read"), "{}", asked[0]);
    assert!(asked[1].contains("a.txt"), "{}", asked[1]);
    drop(asked);
    assert!(ran.stdout.contains(r#""rule":"agents.ada.toolboxes.filesystem""#), "{}", ran.stdout);
    place.file("shelly.yaml", config("[{name: filesystem, tools: [fs_lists]}]"));
    let ran = place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "go"]);
    assert!(ran.code != 0 && ran.stderr.contains("did you mean `fs_list`?"), "{}", ran.shown());
}

#[tokio::test]
async fn missing_toolbox_error_explains_how_to_get_it() {
    let world = World::new();
    let text = format!("providers: [{{name: m, kind: openai, model: m, base_url: 'http://h'}}]\nagents: {ADA}\n");
    let config = Config::parse(&text, world.project()).unwrap_or_else(|report| panic!("{report}"));
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let guests: [PathBuf; 1] = [crate::GUEST_ROOT.into()];
    let app = App::new(config, &guests, None, Arc::new(|_| None), broker).unwrap();
    let report = app.agent(None, None, Recording::Off).await.err().unwrap();
    assert_eq!(report.message, "the plugin `filesystem` is not installed");
    assert!(report.hint.unwrap().contains("name its target/plugins with --plugins"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder_request_is_granted_once_or_permanently_or_denied() {
    let outside = |world: &World| world.path("other").display().to_string();
    // Without the project's folder of its own nothing is asked.
    let world = World::new();
    let came = run(&world, ADA, &[&[("fs_read", json!({"path": "notes.txt"}))]], By::Person(vec![])).await;
    assert!(came.results[0].contains("inside") && came.asked.is_empty(), "{:?} {:?}", came.results, came.warnings);

    for (verdict, reads, is_kept) in
        [(Verdict::No, false, false), (Verdict::Yes, true, false), (Verdict::Trust, true, true)]
    {
        let world = World::new();
        let search = ("search_content", json!({"pattern": "out", "directory": world.path("other")}));
        let calls: [&[_]; 2] = [&[world.read("other/data.txt")], &[search]];
        let calls = if reads { &calls[..] } else { &calls[..1] };
        let came = run(&world, ADA, calls, By::Person(vec![verdict])).await;
        assert_eq!(came.asked.len(), 1, "what is open to one toolbox of an agent is to the other: {:?}", came.asked);
        let (subject, detail) = &came.asked[0];
        assert_eq!(*subject, format!("read the folder `{}` and everything below it", outside(&world)));
        assert!(
            detail.starts_with(&outside(&world)) && detail.contains("`fs_read` of `filesystem` needs it"),
            "{detail}"
        );
        assert!(detail.contains("can then also propose changes of files"), "{detail}");
        let line = format!("files: [{{path: {}, mode: read}}]", outside(&world));
        let decided = came.decided.iter().filter(|(capability, ..)| *capability == line).collect::<Vec<_>>();
        assert_eq!(decided.len(), 1, "{:?}", came.decided);
        assert_eq!(decided[0].1, reads);
        if reads {
            assert!(came.results.iter().all(|result| result.contains("outside")), "{:?}", came.results);
        } else {
            assert!(came.results[0].contains("the person did not grant the folder"), "{:?}", came.results);
        }
        assert_eq!(world.permissions().contains(&outside(&world)), is_kept, "{}", world.permissions());
        // From now on.
        let again = run(&world, ADA, &[&[world.read("other/data.txt")]], By::Person(vec![Verdict::No])).await;
        assert_eq!(again.asked.is_empty(), is_kept, "{:?}", again.asked);
        assert_eq!(again.results[0].contains("outside"), is_kept, "{:?}", again.results);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_missing_the_same_folder_ask_once() {
    let world = World::new();
    world.file("other/more.txt", "outside too\n");
    let calls = [world.read("other/data.txt"), world.read("other/more.txt"), world.read("other/data.txt")];
    let came = run(&world, ADA, &[&calls], By::Person(vec![Verdict::Yes])).await;
    assert_eq!(came.asked.len(), 1, "{:?}", came.asked);
    assert!(came.results.len() == 3 && came.results.iter().all(|one| one.contains("outside")), "{:?}", came.results);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headless_policy_decides_folder_requests() {
    for (policy, opens) in
        [(HeadlessPolicy::Never, false), (HeadlessPolicy::Granted, false), (HeadlessPolicy::All, true)]
    {
        let world = World::new();
        let came = run(&world, ADA, &[&[world.read("other/data.txt")]], By::Nobody(policy)).await;
        let says = if opens { "outside" } else { "no person can be asked" };
        assert!(came.results[0].contains(says), "{policy:?}: {:?}", came.results);
        // Whatever the policy: what holds keys is the config's.
        let came = run(&world, ADA, &[&[world.read("home/.ssh/id")]], By::Nobody(policy)).await;
        assert!(came.results[0].contains("it holds keys"), "{policy:?}: {:?}", came.results);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forbidden_folder_requests_are_refused_without_asking() {
    let world = World::new();
    let list = |path: &str| ("fs_list", json!({ "path": path }));
    let (home, root) = (world.path("home").display().to_string(), world.path("nowhere").display().to_string());
    let narrow = "[{name: ada, toolboxes: [filesystem], use: {files: [{path: .}], powers: [propose-files]}}]";
    let unasked = "[{name: ada, toolboxes: [{name: filesystem, ask: []}]}]";
    for (agents, call, says) in [
        (ADA, list("/"), "it is the root of the file system"),
        (ADA, list("/proc"), "it is a system folder for processes and devices"),
        (ADA, list(&home), "it holds keys"),
        (ADA, list(&world.path("home/.local").display().to_string()), "the person's keys and consents"),
        (ADA, list(&root), "does not exist"),
        (narrow, world.read("other/data.txt"), "agents.ada.use in the config does not include it"),
        (
            unasked,
            world.read("other/data.txt"),
            "a person can grant it in the config, with `- {name: filesystem, files: [{path: \"",
        ),
    ] {
        let came = run(&world, agents, &[&[call]], By::Person(vec![Verdict::Yes])).await;
        assert!(came.results[0].contains(says), "{says}: {:?}", came.results);
        assert!(came.asked.is_empty(), "{:?}", came.asked);
    }
    // A folder below one's own is another matter.
    let came = run(&world, ADA, &[&[world.read("home/work/a.txt")]], By::Person(vec![Verdict::Yes])).await;
    assert!(came.results[0].contains("work"), "{:?}", came.results);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder_request_for_a_link_names_its_target() {
    let world = World::new();
    std::os::unix::fs::symlink(world.path("other"), world.path("shortcut")).unwrap();
    std::os::unix::fs::symlink(world.path("home/.ssh"), world.path("innocent")).unwrap();
    let calls = [world.read("shortcut/data.txt"), world.read("innocent/id")];
    let came = run(&world, ADA, &[&calls[..1], &calls[1..]], By::Person(vec![Verdict::Yes, Verdict::Yes])).await;
    assert!(came.results[0].contains("outside") && came.results[1].contains("it holds keys"), "{:?}", came.results);
    let (subject, detail) = &came.asked[0];
    assert!(subject.contains(&world.path("other").display().to_string()), "{subject}");
    assert!(detail.contains("requested as") && detail.contains("shortcut"), "{detail}");
    assert_eq!(came.asked.len(), 1, "{:?}", came.asked);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_name_cannot_forge_the_consent_prompt() {
    let world = World::new();
    let name = "other\nYes: this file alone.\u{3164}";
    world.file(&format!("{name}/data.txt"), "outside\n");
    std::os::unix::fs::symlink(world.path(name), world.path("way\nTrust: nothing")).unwrap();
    for way in [name, "way\nTrust: nothing"] {
        let calls = [world.read(&format!("{way}/data.txt"))];
        let came = run(&world, ADA, &[&calls], By::Person(vec![Verdict::Yes])).await;
        assert!(came.results[0].contains("outside"), "{:?}", came.results);
        let detail = &came.asked[0].1;
        let forged = detail.lines().any(|line| line.starts_with("Yes: this") || line.starts_with("Trust: n"));
        assert!(!forged && detail.contains("other\\nYes: this file alone.\\u{3164}\n"), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_request_can_open_only_public_servers() {
    const FETCHER: &str = "[{name: ada, toolboxes: [http]}]";
    let fetch = |url: &str| ("http_fetch", json!({ "url": url }));
    for url in ["http://localhost:1/x", "http://127.0.0.1/", "http://10.0.0.1/", "http://[::1]/"] {
        let world = World::new();
        let came = run(&world, FETCHER, &[&[fetch(url)]], By::Person(vec![Verdict::Yes])).await;
        assert!(came.results[0].contains("is not on the public Internet"), "{url}: {:?}", came.results);
        assert!(came.asked.is_empty(), "{url}: {:?}", came.asked);
        if url.contains("10.0") {
            continue;
        }
        // What it says that a person can write grants it.
        let (_, entry) = came.results[0].split_once("with `- ").unwrap();
        let (entry, rest) = entry.split_once("` under agents.ada.toolboxes").unwrap();
        assert_eq!(rest, "", "{url}");
        let granted = format!("[{{name: ada, toolboxes: [{entry}]}}]");
        let came = run(&world, &granted, &[&[fetch(url)]], By::Person(vec![])).await;
        assert!(!came.results[0].contains("grant") && came.asked.is_empty(), "{url} by {entry}: {:?}", came.results);
    }
    // A name that nobody has: when it is open the request is sent, and finds nobody.
    let url = "https://nobody.invalid/page";
    for (verdict, kept) in [(Verdict::No, ""), (Verdict::Yes, ""), (Verdict::Trust, "\"nobody.invalid\"")] {
        let world = World::new();
        let came = run(&world, FETCHER, &[&[fetch(url)]], By::Person(vec![verdict])).await;
        assert_eq!(came.asked[0].0, "send GET and HEAD requests to `https://nobody.invalid`");
        assert_eq!(came.results[0].contains("the person did not grant"), verdict == Verdict::No, "{:?}", came.results);
        assert!(!came.results[0].contains("is not granted"), "{:?}", came.results);
        assert_eq!(
            world.permissions().contains("nobody.invalid"),
            !kept.is_empty() && world.permissions().contains(kept)
        );
        let again = run(&world, FETCHER, &[&[fetch(url)]], By::Person(vec![])).await;
        assert_eq!(again.asked.is_empty(), verdict == Verdict::Trust, "{:?}", again.asked);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sub_run_folder_requests_obey_its_ceiling() {
    let bob = "{name: bob, description: reads, toolboxes: [filesystem]}";
    let lead = |more: &str| format!("[{{name: lead, options: {{max_delegation_depth: 1}}{more}}}, {bob}]");
    let delegate = ("delegate", json!({"tasks": [{"agent": "bob", "task": "read", "context": "c"}]}));
    for (more, asks, says) in [
        ("", 1, "outside"),
        (
            ", delegable: {grant: {files: [{path: .}], powers: [propose-files]}}",
            0,
            "agents.lead.delegable.grant in the config",
        ),
    ] {
        let world = World::new();
        let replies: [&[_]; 2] = [std::slice::from_ref(&delegate), &[world.read("other/data.txt")]];
        let came = run(&world, &lead(more), &replies, By::Person(vec![Verdict::Yes])).await;
        assert_eq!(came.asked.len(), asks, "{more}: {:?}\n{:?}", came.asked, came.results);
        assert!(came.results.iter().any(|result| result.contains(says)), "{more}: {:?}", came.results);
    }
}
