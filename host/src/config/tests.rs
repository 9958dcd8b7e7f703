use std::path::PathBuf;

use super::*;
use crate::{
    capability::{FileAccess, HttpGrant, Power, Powers, PromptableCapability},
    error::Report,
    limits,
};

fn parse(text: &str) -> Result<Config, Report> {
    Config::parse(text, "/project".into())
}

#[test]
fn full_config_is_parsed() {
    let config = parse(
        "
providers:
  - {name: offline, kind: plugin, plugin: offline-model}
  - {name: local, kind: openai, base_url: 'http://localhost:11434/v1', model: llama}
agents:
  - name: helper
    provider: local
    plugins:
      read-files:
        files: [{path: docs, mode: read}]
      count-text:
      loop-detect:
        powers: [note, stop]
        params: {threshold: 3, deep: {list: [1, true, null, x]}}
        on_failure: skip
    options: {max_iterations: 7}
",
    )
    .unwrap();
    let agent = config.entry().unwrap().own();
    assert_eq!(agent.plugins.keys().collect::<Vec<_>>(), ["read-files", "count-text", "loop-detect"]);
    let grant = agent.plugins["read-files"].as_ref().unwrap().grant(|path| config.root.join(path));
    assert_eq!(grant.files, [("/project/docs".into(), FileAccess::Read)].into_iter().collect());
    let guard = agent.plugins["loop-detect"].as_ref().unwrap();
    assert_eq!(params(&guard.params).get(), r#"{"threshold":3,"deep":{"list":[1,true,null,"x"]}}"#);
    assert_eq!(config.provider(Some("local")).unwrap().unwrap().model.as_deref(), Some("llama"));
}

#[test]
fn shipped_toolbox_grants_its_plugins() {
    let config = Config::parse(
        "agents: [{name: a, toolboxes: [filesystem, {name: search, files: [{path: ../docs}], ask: [], tools: [search_files]},
                                        {name: http, http: ['https://h.example'], confirm: true}, everyday]},
                  {name: b, toolboxes: [{name: filesystem, changes: apply}]}]",
        "/srv/project".into(),
    );
    let config = config.unwrap_or_else(|report| panic!("{report}"));
    let uses: Vec<_> = config.agents[0].all_plugins().collect();
    let ids: Vec<_> = uses.iter().map(|(_, id, _)| *id).collect();
    let everyday = ["json-query", "tables", "date-time", "calculator", "encode", "convert", "compare"];
    assert_eq!(ids, [&["filesystem", "search", "fetch"][..], &everyday].concat());
    assert!(uses.iter().all(|(listed, ..)| *listed == PluginSection::Toolboxes));
    let given = |at: usize| uses[at].2.grant(|path| config.root.join(path));
    let shown = |at: usize| uses[at].2.files.iter().map(PluginFolderUse::shown).collect::<Vec<_>>();
    assert_eq!(given(0).files, [("/srv/project/.".into(), FileAccess::Read)].into_iter().collect());
    assert_eq!((shown(0), shown(1)), (vec!["/srv/project".into()], vec!["/srv/docs".into()]));
    assert_eq!(given(0).powers, [Power::ProposeFiles].into());
    assert_eq!((given(1).powers, &uses[1].2.ask), (Powers::default(), &vec![]));
    assert_eq!(uses[0].2.ask, [PromptableCapability::Files]);
    assert_eq!((&uses[2].2.ask, uses[2].2.confirm), (&vec![PromptableCapability::Http], true));
    assert_eq!(given(2).http, HttpGrant::entry("https://h.example", &[], &[]).unwrap());
    for (.., uses) in &uses[..2] {
        assert_eq!(params(&uses.params).get(), r#"{"root":"/srv/project"}"#);
    }
    let clocks: Vec<_> = (3..uses.len()).filter(|at| given(*at).clock).map(|at| ids[at]).collect();
    let readers: Vec<_> = (3..uses.len()).filter(|at| !given(*at).files.is_empty()).map(|at| ids[at]).collect();
    assert_eq!((clocks, readers), (vec!["date-time"], vec!["json-query", "tables", "encode"]));
    assert!((3..uses.len()).all(|at| uses[at].2.ask.is_empty() && given(at).http.is_empty()));
    let changes = |agent: usize| config.agents[agent].all_plugins().next().unwrap().2.changes;
    assert_eq!((changes(0), changes(1)), (ChangesUse::Ask, ChangesUse::Apply));
}

#[test]
fn config_mistakes_name_position_and_fix() {
    let helper = |rest: &str| format!("agents:\n  - name: helper\n{rest}");
    let model = |keys: &str| format!("providers: [{{name: a, kind: openai, model: m, {keys}}}]");
    let plugin = |keys: &str| format!("providers: [{{name: a, kind: plugin, plugin: p, {keys}}}]");
    for (text, message, hint) in [
        ("agent: []".into(), "there is no key `agent`", "did you mean `agents`?"),
        (helper("    plugin: {}\n"), "there is no key `plugin`", "did you mean `plugins`?"),
        (helper("    colour: red\n"), "there is no key `colour`", "valid keys: name, description"),
        ("process: []\n".to_owned(), "the key `process` is not supported yet", "newer shelly-host"),
        ("net: {allow: [x]}\n".to_owned(), "there is no key `net`", "use the key `http` of each plugin"),
        (helper("    net: {}\n"), "there is no key `net`", "use the key `http` of each plugin"),
        (model("http: ['https://h']"), "providers.a.http: valid only for `kind: plugin`", "`kind: plugin`"),
        (model("credentials: [x]"), "providers.a.credentials: valid only for `kind: plugin`", "remove `credentials`"),
        (
            helper("    toolboxes: [{name: search, changes: ask}]\n"),
            "the value of `toolboxes` cannot",
            "remove `changes`, valid keys",
        ),
        (
            helper("    toolboxes: [{name: http, files: []}]\n"),
            "the value of `toolboxes` cannot",
            "`http`, `ask`, `confirm`",
        ),
        (
            helper("    toolboxes: [{name: everyday, ask: []}]\n"),
            "the value of `toolboxes` cannot",
            ": `tools`, `files`, `confirm`",
        ),
        (
            helper("    toolboxes: [{name: notes, ask: [files]}]\n"),
            "the value of `toolboxes` cannot",
            "valid keys besides `name`: `tools`",
        ),
        (helper("    toolboxes: [{name: http, ask: [mail]}]\n"), "`ask` cannot be `mail`", "files, http"),
        (
            helper("    toolboxes: [search, search]\n"),
            "agents.helper.toolboxes: `search` appears twice",
            "remove one of the two",
        ),
        (
            helper("    toolboxes: [http]\n    plugins: {fetch: }\n"),
            "agents.helper: the plugin `fetch` appears under `plugins` and",
            "remove one of the two",
        ),
        (helper("    toolboxes: [filesytem]\n"), "no toolbox or MCP server `filesytem`", "did you mean `filesystem`?"),
        ("filesystem: {permissions_file: x}\n".to_owned(), "there is no key `filesystem`", "permissions.json"),
        (helper("    toolboxes: [{name: taks}]\n"), "no toolbox or MCP server `taks`", "did you mean `tasks`?"),
        (helper("    toolboxes: [{name: tasks, ns: x}]\n"), "the value of `toolboxes` cannot be used", "remove `ns`"),
        (helper("    toolboxes: [ask, taks]\n"), "no toolbox or MCP server `taks`", "did you mean `tasks`?"),
        (
            helper("    toolboxes: [my-server]\n"),
            "no toolbox or MCP server `my-server`",
            "available: ask, state, tasks, notes",
        ),
        (helper("    budget: {tokens: 0}\n"), "the value of `tokens` cannot be used", "leave the key out for no limit"),
        (helper("    budget: {time: 10}\n"), "the value of `time` cannot be used", "such as 90s, 10m"),
        (helper("    budget: {time: 10 parsecs}\n"), "the value of `time` cannot be used", "such as 90s, 10m"),
        (helper("    budget: {usd: much}\n"), "the value of `usd` cannot be used", "such as 0.50"),
        (helper("    budget:\n      usd: -1\n"), "the value of `usd` cannot be used", "such as 0.50"),
        (helper("    budget: {token: 1}\n"), "there is no key `token`", "did you mean `tokens`?"),
        (model("price: 3"), "`price` is not a mapping", "`key: value`"),
        (model("price: {input: 1}"), "the key `output` is missing", "add `output"),
        (model("price: {input: cheap, output: 2}"), "the value of `input` cannot be used", "such as 0.50"),
        (model("price: {input: 1, output: 2, cache: 3}"), "there is no key `cache`", "cache_read"),
        (helper("    options: {interaction_mode: chatty}\n"), "`chatty` is not a valid value", "valid values"),
        (
            helper("    options: {question_timeout: soon}\n"),
            "the value of `question_timeout` cannot",
            "such as 90s, 5m",
        ),
        (
            helper("    options:\n      question_timeout: 5\n"),
            "the value of `question_timeout` cannot",
            "such as 90s, 5m",
        ),
        (helper("    options: {max_delegation_depth: 99}\n"), "must be at most 16", ""),
        (helper("    options: {max_iterations: 5, warn_iterations: 5}\n"), "must be less than the number of turns", ""),
        ("providers: [{name: a, kind: anthropic}]".into(), "providers.a: `model` is missing", ""),
        (model("api_key: k, api_key_file: f"), "providers.a: `api_key` and `api_key_file` are both set", "remove one"),
        (
            model("api_key_file: f, api_key_command: [c]"),
            "`api_key_file` and `api_key_command` are both set",
            "remove one",
        ),
        (model("body: {model: x}"), "providers.a.body.model: the host sets this field itself", "`model` beside"),
        (model("body: {max_completion_tokens: 1}"), "body.max_completion_tokens: the host", "`max_tokens` beside"),
        (model("body: {temperature: 1}"), "body.temperature: the host", "`temperature` beside"),
        (model("body: {stream: false}"), "body.stream: the host sets", "remove the field"),
        (model("headers: {Host: x}"), "providers.a.headers: the header `Host` is set by the host", ""),
        (model("headers: {'x y': z}"), "providers.a.headers: invalid header name `x y`", ""),
        (model("auth: {header: content-length}"), "providers.a.auth.header: the header `content-length` is set", ""),
        (model("auth: {scheme: Bearer}"), "the key `header` is missing", ""),
        (model("auth: {header: x, word: y}"), "there is no key `word`", "scheme"),
        (model("prompt_cache: true"), "providers.a.prompt_cache: valid only for servers that speak", "`api: messages`"),
        (model("encrypted_reasoning: true"), "the API `responses`", "write `api: responses`"),
        (model("api: gemini, printed_calls: true"), "a.printed_calls: valid only for servers", "`api: chat`"),
        (model("api: gemini, max_tokens_field: max_tokens"), "a.max_tokens_field: valid only for", "`api: chat`"),
        (model("api: chatt"), "`api` cannot be `chatt`", "did you mean `chat`?"),
        (model("timeout: 0s"), "providers.a.timeout: must be more than 0 and at most", ""),
        (model("idle_timeout: 0s"), "providers.a.idle_timeout: must be more than 0", ""),
        (model("timeout: 25h"), "providers.a.timeout: must be more than 0 and at most", ""),
        (model("timeout: 10"), "the value of `timeout` cannot be used", "such as 90s, 5m"),
        (model("retries: 11"), "providers.a.retries: must be at most 10", ""),
        (model("max_tokens: 0"), "providers.a.max_tokens: must be at least 1", ""),
        (model("rate_limit: {rpm: 0}"), "rpm", ""),
        (model("batch: {}").replace("kind: openai", "kind: grok"), "batch: not supported for xAI", "remove `batch`"),
        (model("rate_limit: {tpm: 1}"), "there is no key `tpm`", ""),
        (plugin("api_key: k"), "providers.a.api_key: valid only for providers over HTTP", "name a vendor"),
        (plugin("proxy: 'http://p'"), "providers.a.proxy: valid only for providers over HTTP", "remove the key"),
        (plugin("timeout: 1m"), "providers.a.timeout: valid only for providers over HTTP", "`limits: {time"),
        (plugin("retries: 11"), "providers.a.retries: must be at most 10", ""),
        (plugin("idle_timeout: 0s"), "providers.a.idle_timeout: must be more than 0", ""),
        (plugin("api: chat"), "providers.a.api: valid only for providers over HTTP", ""),
        (model("clock: true"), "providers.a.clock: valid only for `kind: plugin`", "`kind: plugin`"),
        (helper("    provider: nope\n"), "there is no model `nope`", "add the model under `providers`"),
        (helper("entry_agent: helpr\n"), "there is no agent `helpr`", "did you mean `helper`?"),
        (helper("  - name: helper\n"), "agents: two entries have the name `helper`", ""),
        (helper("    plugins: {x: {files: [{path: ., mode: reed}]}}\n"), "`mode` cannot be `reed`", "`read`"),
        (helper("    plugins: {x: {changes: aply}}\n"), "`changes` cannot be `aply`", "did you mean `apply`?"),
        (helper("    plugins: {x: {powers: [stopp]}}\n"), "`powers` cannot be `stopp`", "did you mean `stop`?"),
        (helper("    options: {max_iterations: 999999}\n"), "must be at most 10000", ""),
        ("context: {max_external_file_size: 16777217}".into(), "max_external_file_size: must be at most 16777216", ""),
        (helper("    plugins: {x: {files: [docs]}}\n"), "`files` is not a mapping", "`files: [{path: docs}]`"),
        (
            helper("    plugins:\n      x:\n        files:\n          - {path: a}\n          - docs\n"),
            "expected a mapping here",
            "`files: [{path: docs}]`",
        ),
        (helper("    use: {files: [docs, out]}\n"), "`files` is not a mapping", "`files: [{path: docs}]`"),
        (helper("    budget: {tokens: -1}\n"), "`tokens`", ""),
        ("providers: [{name: a, kind: plugin}]".into(), "needs the id of the plugin", ""),
        ("providers: [{name: a, kind: openai}]".into(), "`model` is missing", ""),
        ("providers: [{kind: openai}]".into(), "the key `name` is missing", ""),
        ("providers: [{name: a, kind: openai, model: m, plugin: x}]".into(), "valid only for `kind: plugin`", ""),
        ("providers: [{name: a, kind: openai, model: m, temperature: 3}]".into(), "between 0 and 2", ""),
        ("agents: [".into(), "is not valid YAML", ""),
        ("agents: 7".into(), "`agents` is not a list", "`- `"),
        ("agents:\n  7".into(), "expected a list here", "`- `"),
        (helper("    plugins: [x]\n"), "`plugins` is not a mapping", "`key: value`"),
        (helper("    options: {max_iterations: many}\n"), "`max_iterations` is not a whole number", ""),
        ("agents: []\nagents: []".into(), "the key `agents` appears twice", "merge them"),
        ("agents: []\n---\nagents: []".into(), "more than one YAML document", "`---`"),
    ] {
        let report = parse(&text).unwrap_err();
        assert!(report.message.contains(message), "{text}\n{report:?}");
        assert!(report.hint.clone().unwrap_or_default().contains(hint), "{text}\n{report:?}");
    }
}

#[test]
fn default_window_applies_only_to_vendor_address() {
    for (keys, expected) in [
        ("kind: anthropic", Some(200_000)),
        ("kind: gemini", Some(1_048_576)),
        ("kind: grok", Some(131_072)),
        ("kind: openai", Some(128_000)),
        ("kind: openrouter", None),
        ("kind: ollama", None),
        ("kind: llamacpp", None),
        ("kind: lmstudio", Some(4_096)),
        ("kind: vllm", Some(8_192)),
        ("kind: vllm, base_url: 'http://a.example'", Some(8_192)),
        ("kind: vllm, context_window: 9", Some(9)),
        ("kind: vllm, context_window: 0", None),
        ("kind: anthropic, base_url: 'http://a.example'", None),
        ("kind: anthropic, base_url: 'http://a.example', context_window: 7", Some(7)),
        ("kind: anthropic, context_window: 0", None),
    ] {
        let windows = "default_context_windows: {vllm: 8192, lmstudio: 4096}";
        let config = parse(&format!("{windows}\nproviders: [{{name: a, model: m, {keys}}}]")).unwrap();
        assert_eq!(config.context_window(&config.providers[0]), expected, "{keys}");
    }
    let report = parse("default_context_windows: {vlm: 1}").unwrap_err();
    assert!(report.message.contains("`vlm`"), "{report:?}");
}

#[test]
fn config_mistake_report_is_bounded() {
    // YAML does not accept a longer key.
    let long = "x".repeat(1_000);
    let agents: String = (0..limits::NAMES_SHOWN + 3).map(|at| format!("  - name: a{at}\n")).collect();
    for (text, says) in [
        (format!("{long}: []"), "there is no key `xxx"),
        (format!("providers: [{{name: a, kind: {long}}}]"), "cannot be `xxx"),
        (format!("agents: [{{name: a, budget: {{time: 5{long}}}}}]"), "`time` cannot be used"),
        (format!("agents:\n{agents}entry_agent: {long}"), "there is no agent `xxx"),
    ] {
        let report = parse(&text).unwrap_err();
        assert!(report.message.contains(says), "{report:?}");
        let bytes = format!("{report:?}").len();
        assert!(bytes < 900, "{says}: {bytes} bytes");
    }
    let hint = parse(&format!("agents:\n{agents}entry_agent: other")).unwrap_err().hint.unwrap();
    assert!(hint.starts_with("available: a0, a1, ") && hint.ends_with(", a49, and 3 more"), "{hint}");
}

#[test]
fn the_line_of_a_mistake_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shelly.yaml");
    std::fs::write(&path, "agents:\n  - name: a\n    colour: red\n").unwrap();
    let report = Config::read(&path).unwrap_err();
    assert!(report.message.ends_with("shelly.yaml, line 3, column 5)"), "{}", report.message);
}

#[test]
fn variables_are_replaced_or_missed_by_name() {
    let environment = |name: &str| (name == "KEY").then(|| "secret".to_owned());
    for (text, expanded) in [
        ("${KEY}", Ok("secret")),
        ("a${KEY}b${KEY}", Ok("asecretbsecret")),
        ("$KEY", Ok("$KEY")),
        ("a${KEY", Err("${KEY")),
        ("x${NO}y", Err("NO")),
        ("${}", Err("")),
    ] {
        assert_eq!(variables::expand(text, &environment), expanded.map(str::to_owned).map_err(str::to_owned), "{text}");
    }
}

#[test]
fn yaml_1_1_boolean_word_is_text() {
    let text = "agents: [{name: a, plugins: {p: {params: {required: [n, no, on, y], is: true}}}}]";
    let config = Config::parse(text, PathBuf::new()).unwrap();
    let params = &config.agents[0].plugins["p"].as_ref().unwrap().params;
    assert_eq!(params["required"], serde_json::json!(["n", "no", "on", "y"]));
    assert_eq!(params["is"], serde_json::json!(true));
    let report = Config::parse("agents: [{name: a, plugins: {p: {confirm: yes}}}]", PathBuf::new()).unwrap_err();
    assert!(report.message.starts_with("`confirm` is not a boolean"), "{report:?}");
    assert_eq!(report.hint.as_deref(), Some("write `true` or `false`"));
}
