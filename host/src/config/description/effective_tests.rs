use serde_json::Value;

use super::{AgentRuntimeInfo, ConfigRuntimeInfo, EffectiveConfig, PluginRuntimeInfo, StepOrder};
use crate::{
    config::{Config, json_schema},
    limits,
};

#[test]
fn effective_config_shows_defaults() {
    let text = "
providers:
  - {name: gpt, kind: openai, model: m, api_key: sk-secret}
credentials:
  - {name: github, env: TOKEN, for: ['https://api.github.com']}
  - {name: hub, file: keys/hub, for: ['https://hub.example'], auth: {header: x-key}}
default_context_windows: {openai: 8000}
programs: {cargo: {args: [[test]], env: {TOKEN: 'sk-secret'}, timeout: 5m}, fmt: {command: ./fmt, cwd: sub}}
git: {work_dir: sub}
agents:
  - name: lead
    options: {max_iterations: 0, max_delegation_depth: 2}
  - name: coder
    max_concurrency: 2
    budget: {time: 90s}
    instructions: \"two\\nlines: # no comment\"
    toolboxes: [{name: state, tools: [shared_state_get]}, exec]
    plugins: {guard: {programs: [fmt], http: ['https://api.github.com', {url: 'http://nas.lan', methods: [GET], networks: [10.0.0.0/8]}], credentials: [hub]}}
";
    let config = Config::parse(text, "/project".into()).unwrap();
    let coder = AgentRuntimeInfo {
        toolboxes: vec![vec!["shared_state_get".into()], vec!["exec_run".into()]],
        plugins: vec![PluginRuntimeInfo { kinds: vec!["effect"], ..PluginRuntimeInfo::default() }],
        order: StepOrder { effects: vec!["guard".into()], ..StepOrder::default() },
        ..AgentRuntimeInfo::default()
    };
    let known = ConfigRuntimeInfo {
        prices: vec![None],
        agents: vec![AgentRuntimeInfo::default(), coder],
        ..ConfigRuntimeInfo::default()
    };
    let effective = EffectiveConfig::new(&config, &known);
    let (yaml, json) = (effective.to_yaml(), serde_json::to_value(&effective).unwrap());
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), json, "{yaml}");
    assert!(!yaml.contains("sk-secret"), "{yaml}");
    for line in [
        "base_url: https://api.openai.com/v1 # default",
        "api_key: \"***\"",
        "env: TOKEN",
        "file: /project/keys/hub",
        "command: cargo # the name of the entry",
        "command: ./fmt",
        "cwd: /project # the root",
        "cwd: /project/sub",
        "timeout: 5m",
        "timeout: 2m",
        "work_dir: /project/sub",
        "programs: null # any program, after asking a person",
        "programs: 16 # running at once",
        "header: authorization # default",
        "header: x-key",
        "HEAD",
        "networks: null # public addresses, or the named address",
        "context_window: 8000 # from default_context_windows",
        "price: null # unknown",
        "max_iterations: 10000 # 0: the maximum",
        "max_iterations: 50 # default",
        "max_concurrency: 128 # 0: the maximum",
        "max_concurrency: 2",
        "time: 1m 30s",
        "tokens: null # no limit of its own",
        "ns: shared # default",
        "on_failure: stop # the default of the plugin",
        "question_timeout: 1day # the time limit of a delegation",
        "entry_agent: lead # the first agent",
        "max_external_file_size: 524288 # bytes; default",
    ] {
        assert!(yaml.lines().any(|found| found.trim_start_matches([' ', '-']) == line), "{line}\n{yaml}");
    }
    let (lead, coder) = (&json["agents"][0], &json["agents"][1]);
    assert_eq!((&lead["delegates_to"][0], &lead["hand_overs"]), (&"coder".into(), &limits::HANDOFFS.into()));
    assert_eq!(coder["delegates_to"], serde_json::json!([]));
    assert_eq!(coder["order"]["effects"], serde_json::json!(["guard"]));
    assert_eq!(coder["order"]["runs"], serde_json::json!([]));
    assert_eq!(json["limits"]["memory_bytes"], limits::PLUGIN_MEMORY_BYTES);
    assert_eq!(json["house"]["plugin_calls"], limits::PLUGIN_CALLS);
}

#[test]
fn effective_config_shows_every_key_of_the_schema() {
    let schema = json_schema();
    let text = "
agents: [{name: a, plugins: {p: {}}, toolboxes: [exec]}]
teams: [{name: t, members: [a], coordinator: leader}]
";
    let config = Config::parse(text, "/project".into()).unwrap();
    let effective = serde_json::to_value(EffectiveConfig::new(&config, &ConfigRuntimeInfo::default())).unwrap();
    let agent = &effective["agents"][0];
    for (shown, properties) in [
        (&effective, &schema["properties"]),
        (agent, &schema["$defs"]["AgentConfig"]["properties"]),
        (&agent["options"], &schema["$defs"]["AgentOptions"]["properties"]),
        (&agent["delegable"], &schema["$defs"]["DelegableConfig"]["properties"]),
        (&agent["budget"], &schema["$defs"]["Budget"]["properties"]),
        (&agent["plugins"]["p"], &schema["$defs"]["PluginUse"]["properties"]),
        (&effective["teams"][0], &schema["$defs"]["TeamConfig"]["properties"]),
        (&effective["limits"], &schema["$defs"]["LimitsConfig"]["properties"]),
        (&effective["runs"], &schema["$defs"]["RunsConfig"]["properties"]),
        (&effective["sessions"], &schema["$defs"]["SessionsConfig"]["properties"]),
    ] {
        let properties = properties.as_object().unwrap();
        assert!(!properties.is_empty());
        for key in properties.keys() {
            // Only steps have it in what is shown.
            let is_shown = shown.get(key).is_some() || key == "on_failure";
            assert!(is_shown, "`{key}` is not shown: {shown}");
        }
    }
}
