//! Wiring of everything that is declared: every key of the config, every kind of event and every flag does something. The
//! list is read off the types and the program; an entry that is missing in the tables here fails.

mod keys;

use std::{
    collections::{BTreeSet, VecDeque},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use keys::{
    Parts,
    Shown::{By, Seen},
    table,
};
use serde_json::{Value, json};
use shelly_host::{
    app::{App, Recording},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    capability::{Budget, Price},
    chat::{Chat, Message},
    config::{
        AgentConfig, AgentOptions, AgentToolUse, AuthConfig, ClusterConfig, ClusterCredentialsConfig,
        ClusterEncryptionConfig, ClusterKeyConfig, ClusterLimitsConfig, ClusterNamespaceConfig, Config, ContextConfig,
        CredentialAuthConfig, CredentialConfig, DelegableConfig, FileTriggerConfig, FolderUse, GitConfig, GrantConfig,
        HmacHeaderConfig, HttpUse, LimitsConfig, McpServerConfig, MemberUse, OAuthConfig, OpenApiConfig, OpenApiUse,
        OtlpConfig, PluginFolderUse, PluginSignaturesConfig, PluginUse, ProgramConfig, ProviderConfig,
        RemoteAgentConfig, RunsConfig, SessionsConfig, SigningKeyConfig, TeamConfig, TelemetryConfig, ToolboxUse,
        TriggerConfig, WebhookConfig, WebhookSecretConfig,
    },
    event::{EventSink, RunCx},
    model::{BatchConfig, RateLimitConfig},
};

use crate::{
    bad_input::{Server, answer},
    support::Place,
};

/// The keys of a mapping in the config: those that serde expects in place of one that is not there.
fn keys<T: serde::de::DeserializeOwned>(name: &str) -> Vec<String> {
    let error = serde_json::from_value::<T>(json!({ "no such key": 1 })).err().unwrap().to_string();
    let (_, expected) = error.split_once("expected ").unwrap_or_else(|| panic!("{name}: {error}"));
    let keys: Vec<_> = expected.split('`').skip(1).step_by(2).map(|key| format!("{name}.{key}")).collect();
    assert!(!keys.is_empty(), "{name}: {error}");
    keys
}

fn all_keys() -> BTreeSet<String> {
    [
        keys::<Config>("config"),
        keys::<ContextConfig>("context"),
        keys::<SessionsConfig>("sessions"),
        keys::<ClusterConfig>("cluster"),
        keys::<ClusterCredentialsConfig>("cluster_credentials"),
        keys::<ClusterLimitsConfig>("cluster_limits"),
        keys::<ClusterEncryptionConfig>("cluster_encryption"),
        keys::<ClusterKeyConfig>("cluster_key"),
        keys::<ClusterNamespaceConfig>("cluster_namespace"),
        keys::<RunsConfig>("runs"),
        keys::<TelemetryConfig>("telemetry"),
        keys::<OtlpConfig>("otlp"),
        keys::<TriggerConfig>("trigger"),
        keys::<WebhookConfig>("webhook"),
        keys::<WebhookSecretConfig>("webhook_secret"),
        keys::<HmacHeaderConfig>("hmac_header"),
        keys::<FileTriggerConfig>("file_trigger"),
        keys::<ProviderConfig>("provider"),
        keys::<AuthConfig>("auth"),
        keys::<CredentialConfig>("credential"),
        keys::<CredentialAuthConfig>("credential_auth"),
        keys::<HttpUse>("http"),
        keys::<McpServerConfig>("server"),
        keys::<OAuthConfig>("oauth"),
        keys::<OpenApiConfig>("api"),
        keys::<OpenApiUse>("api_use"),
        keys::<RateLimitConfig>("rate_limit"),
        keys::<BatchConfig>("batch"),
        keys::<Price>("price"),
        keys::<AgentConfig>("agent"),
        keys::<RemoteAgentConfig>("remote"),
        keys::<AgentToolUse>("agent_tool"),
        keys::<AgentOptions>("options"),
        keys::<TeamConfig>("team"),
        keys::<MemberUse>("member"),
        keys::<Budget>("budget"),
        keys::<ToolboxUse>("toolbox"),
        keys::<ProgramConfig>("program"),
        keys::<GitConfig>("git"),
        keys::<PluginSignaturesConfig>("plugin_signatures"),
        keys::<SigningKeyConfig>("signing_key"),
        keys::<PluginUse>("plugin"),
        keys::<PluginFolderUse>("file"),
        keys::<LimitsConfig>("limits"),
        keys::<GrantConfig>("grant"),
        keys::<FolderUse>("folder"),
        keys::<DelegableConfig>("delegable"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Events that the runs of the table do not bring about, and what does.
const EVENTS: [(&str, &str, &str); 7] = [
    ("Missed", "../../host/core/src/event/sink.rs", "slow_observer_gets_a_missed_count"),
    ("Warning", "bad_input/plugins.rs", "default_agent_leaves_out_unusable_plugins_with_a_warning"),
    ("ToolProgress", "hostile/call.rs", "guest_progress_flood_is_thinned_and_keeps_the_last_report"),
    ("PluginWaits", "hostile/memory.rs", "call_waits_for_memory_until_another_one_ends"),
    ("PluginRequest", "providers/program.rs", "plugin_provider_requests_are_reported_without_the_key"),
    ("FileChange", "changes/mod.rs", "each_file_change_emits_an_event"),
    ("PluginLog", "hostile/call.rs", "guest_log_flood_is_capped_and_counted"),
];

/// The body of a test, which must be there.
fn body_of(file: &str, test: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("all").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let start = text.find(&format!("fn {test}(")).unwrap_or_else(|| panic!("{file} has no test `{test}`"));
    let is_test = text[..start].trim_end().rsplit("\n\n").next().unwrap().contains("test");
    assert!(is_test, "{file}: `{test}` is no test");
    text[start..].split("\n}\n").next().unwrap().to_owned()
}

/// A project with a text to read, rules for agents and a skill.
fn project() -> Place {
    let place = Place::new();
    place.file("docs/bird.txt", "tweet tweet");
    place.file("CLAUDE.md", "Birds of a feather flock together.");
    place.file(".shelly/skills/flight/SKILL.md", "---\nname: flight\ndescription: When to fly.\n---\nFlap.\n");
    place
}

/// A model that makes these calls, one a reply, and then answers. It says that it was sent 30,000 tokens.
pub fn scripted(calls: &[(&str, &str)]) -> Server {
    let calls: Mutex<VecDeque<_>> =
        Mutex::new(calls.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect());
    Server::start(move |_| {
        let (message, stop) = match calls.lock().unwrap().pop_front() {
            Some((name, arguments)) => {
                let call =
                    json!({ "id": "1", "type": "function", "function": { "name": name, "arguments": arguments } });
                (json!({ "tool_calls": [call] }), "tool_calls")
            }
            None => (json!({ "content": "done" }), "stop"),
        };
        let choice = json!({ "message": message, "finish_reason": stop });
        let usage = json!({ "prompt_tokens": 30_000, "completion_tokens": 10 });
        answer("200 OK", &json!({ "choices": [choice], "usage": usage }).to_string())
    })
}

/// All that is seen of a run, and the kinds of its events.
async fn seen(place: &Place, parts: &Parts) -> (String, BTreeSet<String>) {
    let server = scripted(parts.calls);
    let text = parts.config(&format!("http://127.0.0.1:{}", server.port));
    let (outcome, events) = match run(place, &text).await {
        Ok(seen) => seen,
        Err(report) => (format!("not made: {report}\n"), Vec::new()),
    };
    let mut seen = outcome;
    let (mut working, mut most) = (0, 0);
    let mut kinds = BTreeSet::new();
    for event in &events {
        let kind = event["event"].as_str().unwrap();
        working += i32::from(kind == "run_started") - i32::from(kind == "run_finished");
        most = most.max(working);
        kinds.insert(kind.to_owned());
        seen.push_str(&format!("{event}\n"));
    }
    let requests = server.asked.lock().unwrap();
    seen.push_str(&format!("at once: {most}\nrequests: {}\n{}", requests.len(), requests.join("\n")));
    (seen, kinds)
}

async fn run(place: &Place, text: &str) -> Result<(String, Vec<Value>), shelly_host::error::Report> {
    let config = Config::parse(text, place.path())?;
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let plugins: [PathBuf; 2] = [crate::PLUGIN_ROOT.into(), crate::GUEST_ROOT.into()];
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let prepared =
        App::new(config, &plugins, Some(cache), Arc::new(|_| None), broker)?.agent(None, None, Recording::Off).await?;
    let runner = prepared.entrant.runner();
    let options = prepared.entrant.agent().map(|agent| &agent.options);
    let mut seen = format!("{options:?}\n{:?}\n", prepared.model.context_window);
    seen.push_str(&prepared.warnings.join("\n"));
    let (events, mut stream) = EventSink::channel();
    let collected = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Some(event) = stream.next_event().await {
            all.push(serde_json::to_value(event).unwrap());
        }
        all
    });
    let cx = RunCx::new(Arc::clone(runner.name())).with_events(events);
    let outcome = runner.run(&cx, &Chat::new(), vec![Message::user("go")]).await;
    drop(cx);
    seen.push_str(&match outcome {
        Ok(answer) => format!("\noutcome: {}\n", answer.message.text_content()),
        Err(error) => format!("\noutcome: failed: {error}: {:?}\n", std::error::Error::source(&error)),
    });
    Ok((seen, collected.await.unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_config_key_and_event_has_an_effect() {
    let table = table();
    let in_table: BTreeSet<_> = table.iter().map(|(key, _)| (*key).to_owned()).collect();
    assert_eq!(in_table.len(), table.len(), "appears twice");
    assert_eq!(all_keys(), in_table, "a key of the config is not in the table, or one of the table is no key");

    let place = project();
    let (mut told, mut wrong) = (BTreeSet::new(), Vec::new());
    for (key, shown) in table {
        match shown {
            By(file, test) => {
                let name = key.split_once('.').unwrap().1;
                let body = body_of(file, test);
                assert!(
                    body.contains(&format!("{name}:")) || body.contains("helper("),
                    "{test} does not name `{name}`"
                );
            }
            Seen(says, with, without) => {
                let ((with, events), (without, more)) = (seen(&place, &with).await, seen(&place, &without).await);
                if !with.contains(says) {
                    wrong.push(format!("{key}: `{says}` is not seen with it\n{with}"));
                }
                if without.contains(says) {
                    wrong.push(format!("{key}: `{says}` is seen without it\n{without}"));
                }
                told.extend(events.into_iter().chain(more));
            }
        }
    }

    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let source =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/core/src/event/event.rs")).unwrap();
    let cases = source.split("pub enum Event {").nth(1).unwrap().split("\n}\n").next().unwrap();
    let cases = cases
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split(" {").next())
        .filter(|name| name.starts_with(char::is_uppercase) && name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let cases: Vec<_> = cases.collect();
    assert!(cases.len() > 20, "{cases:?}");
    let render =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/src/cli/render/progress_display.rs"))
            .unwrap();
    for case in cases {
        assert!(render.contains(&format!("Event::{case} ")), "nobody decided how `{case}` is shown");
        let snake: String = case
            .char_indices()
            .map(|(at, c)| if at > 0 && c.is_uppercase() { format!("_{c}") } else { c.to_string() })
            .collect();
        let snake = snake.to_lowercase();
        match EVENTS.iter().find(|(known, ..)| *known == case) {
            None => assert!(told.contains(&snake), "no run told of `{case}`"),
            Some((_, file, test)) => {
                let body = body_of(file, test);
                let names = body.contains(&format!("Event::{case}")) || body.contains(&snake);
                assert!(names, "{test} does not name `{case}`");
                assert!(!told.contains(&snake), "`{case}` needs no test of its own");
            }
        }
    }
}

#[test]
fn headless_tool_call_is_approved_by_a_flag() {
    let place = Place::new();
    let config = "providers: [{name: offline, kind: plugin, plugin: offline-model}]\n\
                  agents: [{name: a, plugins: {count-text: {confirm: true}}}]\n";
    place.file(".shelly/config.yaml", config);
    let task = ["run", "How many words are in \"one two three\"?", "--plugins", crate::PLUGIN_ROOT];
    let refused = "needs a person's consent";
    let ran = |more: &[&str]| place.run(&[&task[..], more].concat());
    for (more, is_allowed, says) in [
        (&[][..], false, "count_text failed"),
        (&["--approve", "never"], false, "(not asked)"),
        (&["--approve", "granted"], false, "(not asked)"),
        (&["--approve", "all"], true, "count_text done"),
    ] {
        let ran = ran(more);
        assert_eq!(ran.stdout.contains(refused), !is_allowed, "{more:?}: {}", ran.shown());
        assert!(ran.stderr.contains(says), "{more:?}: {}", ran.shown());
        assert!(!ran.stderr.contains("count-text tool.call: ok"), "{}", ran.shown());
    }
    place.file(".shelly/local/permissions.json", r#"{"trusted_tools": ["count-text/count_text"]}"#);
    let granted = ran(&["--approve", "granted", "--verbose"]);
    assert!(granted.stderr.contains("(trusted)"), "{}", granted.shown());
    assert!(granted.stderr.contains("count-text tool.call: ok"), "{}", granted.shown());
    assert!(!granted.stdout.contains(refused), "{}", granted.shown());
    assert!(ran(&["--approve", "never"]).stdout.contains(refused), "not even what is trusted");
}

#[test]
fn plugin_list_covers_the_named_config() {
    let place = Place::new();
    place.file("other.yaml", format!("plugin_dirs: ['{}']\n", crate::PLUGIN_ROOT));
    let text = place.run(&["plugin", "list", "--config", "other.yaml"]);
    assert!(text.code == 0 && text.stdout.contains("\ncount-text "), "{}", text.shown());
    let json = place.run(&["plugin", "list", "--config", "other.yaml", "--output", "json"]);
    let listed: Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(listed.as_array().unwrap().iter().any(|plugin| plugin["id"] == "count-text"), "{}", json.shown());
    let folder = format!("{}/count-text", crate::PLUGIN_ROOT);
    for which in [
        &[folder.as_str()][..],
        &["count-text", "--config", "other.yaml"],
        &["count-text", "--plugins", crate::PLUGIN_ROOT],
    ] {
        let text = place.run(&[&["plugin", "inspect"], which].concat());
        assert!(text.code == 0 && text.stdout.contains("\ntool         count_text: Counts"), "{}", text.shown());
    }
    let none = place.run(&["plugin", "inspect", "count-txt", "--config", "other.yaml"]);
    assert!(none.code == 2 && none.stderr.contains("there is no file, folder or plugin `"), "{}", none.shown());
    let json = place.run(&["plugin", "inspect", &folder, "--output", "json"]);
    let one: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(one["tools"][0]["name"], "count_text", "{}", json.shown());
}

#[test]
fn config_page_has_every_key() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md")).unwrap();
    let block = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    Config::parse(block, "/".into()).unwrap_or_else(|report| panic!("{report}"));
    for key in all_keys() {
        let name = key.split_once('.').unwrap().1;
        assert!(block.contains(&format!("{name}:")), "docs/config.md: the config lacks `{name}`");
    }
}
