use super::wording::shown_address;
use crate::{
    config::Config,
    digest::Sha256Digest,
    trust::{TrustFacts, quoted_path},
};

const CONFIG: &str = "
providers:
  - {name: gpt, kind: openai, model: m, base_url: 'https://a.example/${PART}', api_key: '${KEY}'}
  - {name: own, kind: openai, model: m, api_key: sk-secret}
  - {name: far, kind: openai, model: m, base_url: 'https://me:sk-secret@a.example/v1'}
  - {name: off, kind: plugin, plugin: o, clock: true, random: true}
agents:
  - name: a
    plugins: {p: {files: [{path: docs}, {path: out, as: o, mode: write}], chat: true, powers: [note, stop]}, q: }
  - {name: b, plugins: {p: {clock: true, confirm: true, kv: agent}}}
";

fn lines(text: &str) -> Vec<String> {
    let facts = Config::parse(text, "/nowhere".into()).unwrap_or_else(|report| panic!("{report}")).facts();
    facts.lines().map(str::to_owned).collect()
}

#[test]
fn each_outward_reference_of_config_is_a_fact() {
    let far = lines(CONFIG).into_iter().find(|line| line.contains("`far`")).unwrap();
    assert!(far.starts_with("the model `far` is at `https://a.example/v1` (sha256:") && !far.contains("secret"));
    let others: Vec<_> = lines(CONFIG).into_iter().filter(|line| *line != far).collect();
    assert_eq!(
        others,
        [
            "the agent `a`: the plugin `p` has the power `note`",
            "the agent `a`: the plugin `p` has the power `stop`",
            "the agent `a`: the plugin `p` is used, without asking you before each call",
            "the agent `a`: the plugin `p` may read `/nowhere/docs`",
            "the agent `a`: the plugin `p` may read and change `/nowhere/out`",
            "the agent `a`: the plugin `p` may read the conversation",
            "the agent `a`: the plugin `q` is used, without asking you before each call",
            "the agent `b`: the plugin `p` is used",
            "the agent `b`: the plugin `p` may read the clock",
            "the agent `b`: the plugin `p` may store data (kv: agent)",
            "the model `gpt` has the environment variable `PART` in its address `https://a.example/${PART}`",
            "the model `gpt` is at `https://a.example/${PART}`; conversations are sent there",
            "the model `gpt` sends the environment variable `KEY` to `https://a.example/${PART}`",
            "the model `off`: its plugin may get random bytes",
            "the model `off`: its plugin may read the clock",
            "the model `own` is at `https://api.openai.com/v1`; conversations are sent there",
        ]
    );
}

#[test]
fn provider_facts_list_keys_and_proxies() {
    let of = |keys: &str| lines(&format!("providers: [{{name: m, model: m, {keys}}}]"));
    let at = |address: &str| format!("the model `m` is at `{address}`; conversations are sent there");
    let xai = at("https://api.x.ai/v1");
    for (keys, expected) in [
        (
            "kind: grok",
            vec![xai.as_str(), "the model `m` sends the environment variable `XAI_API_KEY` to `https://api.x.ai/v1`"],
        ),
        ("kind: grok, api_key: sk-1", vec![&xai]),
        (
            "kind: grok, api_key_file: keys/x",
            vec![&xai, "the model `m` sends the content of the file `/nowhere/keys/x` to `https://api.x.ai/v1`"],
        ),
        (
            "kind: grok, api_key_command: [pass, show, x]",
            vec![&xai, "the model `m` runs `pass show x` and sends its output to `https://api.x.ai/v1`"],
        ),
        // The usual key is sent only to the vendor.
        ("kind: grok, base_url: 'http://a.example'", vec![&at("http://a.example")]),
        ("kind: ollama", vec![&at("http://127.0.0.1:11434/v1")]),
        (
            "kind: ollama, headers: {x-a: 'Bearer ${TOKEN}', x-b: plain}",
            vec![
                &at("http://127.0.0.1:11434/v1"),
                "the model `m` sends the environment variable `TOKEN` to `http://127.0.0.1:11434/v1`",
            ],
        ),
        (
            "kind: ollama, proxy: 'http://${HOST}:1'",
            vec![
                "the model `m` has the environment variable `HOST` in its proxy `http://${HOST}:1`",
                &at("http://127.0.0.1:11434/v1"),
                "the model `m` is reached through the proxy `http://${HOST}:1`; conversations are sent there too",
            ],
        ),
    ] {
        assert_eq!(of(keys), expected, "{keys}");
    }
    let proxy = |password: &str| of(&format!("kind: ollama, proxy: 'http://me:{password}@p.example:1'")).remove(1);
    let shown = proxy("sk-secret");
    assert!(shown.starts_with("the model `m` is reached through the proxy `http://p.example:1/` (sha256:"), "{shown}");
    assert_ne!(shown, proxy("other"), "who changes it is asked about");
}

#[test]
fn facts_of_plugin_grants_are_narrowed_by_ceiling() {
    let of = |ceiling: &str| {
        lines(&format!(
            "agents: [{{name: a, {ceiling} plugins: {{p: {{files: [{{path: docs, mode: write}}, {{path: out}}], \
                 clock: true, random: true, chat: true, kv: agent, powers: [note, stop]}}}}}}]"
        ))
    };
    let who = "the agent `a`: the plugin `p`";
    let all = of("");
    for may in ["read and change `/nowhere/docs`", "read `/nowhere/out`", "read the clock", "store data (kv: agent)"] {
        assert!(all.contains(&format!("{who} may {may}")), "{may}: {all:?}");
    }
    assert_eq!(of("use: {},"), [format!("{who} is used, without asking you before each call")]);
    assert_eq!(
        of("use: {files: [{path: docs/a}, {path: ., mode: read}], clock: true, kv: [run, agent], powers: [stop]},"),
        [
            format!("{who} has the power `stop`"),
            format!("{who} is used, without asking you before each call"),
            format!("{who} may read `/nowhere/docs`"),
            format!("{who} may read `/nowhere/out`"),
            format!("{who} may read the clock"),
            format!("{who} may store data (kv: agent)"),
        ]
    );
    let below = of("use: {files: [{path: docs/a, mode: write}], chat: true, random: true, kv: run},");
    assert!(below.contains(&format!("{who} may read and change `/nowhere/docs/a`")), "{below:?}");
    assert!(below.iter().any(|line| line.ends_with("may read the conversation")) && below.len() == 4, "{below:?}");
}

#[test]
fn shown_address_reveals_actual_host() {
    for (address, shown) in [
        ("https://a.example/v1", "`https://a.example/v1`"),
        ("https://evil.example/${USER}?", "`https://evil.example/$%7BUSER%7D` (sha256:"),
        ("https://api.good.example:x@evil.example:8443/v1#${K}", "`https://evil.example:8443/v1` (sha256:"),
        ("https://\u{430}pi.example/v1", "`https://xn--pi-6kc.example/v1` (sha256:"),
        ("${URL}?x", "`${URL}?x`"),
    ] {
        let found = shown_address(address);
        assert!(found.starts_with(shown), "{address}: {found}");
    }
}

#[test]
fn inward_config_changes_keep_facts_unchanged() {
    let before = lines(CONFIG);
    for (from, to) in [
        ("a.example/${PART}", "b.example/${PART}"),
        ("${PART}", "${OTHER}"),
        ("me:sk-secret@", "me:sk-secreT@"),
        ("'${KEY}'", "'${KEY}${OTHER}'"),
        ("name: off", "name: of"),
        ("random: true", "random: false"),
        ("path: docs", "path: doc"),
        ("mode: write", "mode: read"),
        ("chat: true", "chat: false"),
        ("[note, stop]", "[note, stop, rewrite]"),
        ("confirm: true", "confirm: false"),
        ("confirm: true", "confirm: true, changes: apply"),
        (", q: ", ""),
    ] {
        assert!(CONFIG.contains(from));
        assert_ne!(lines(&CONFIG.replacen(from, to, 1)), before, "{from}");
    }
    for (from, to) in [
        ("api_key: sk-secret", "api_key: sk-other"),
        ("model: m", "model: n, temperature: 1, max_tokens: 3, price: {input: 1, output: 2}"),
        ("plugin: o,", "plugin: o, params: {x: 1},"),
        ("- name: a", "- name: a\n    instructions: other\n    description: x\n    toolboxes: [notes]"),
        ("{name: b,", "{name: b, budget: {tokens: 3}, options: {max_iterations: 3}, provider: gpt,"),
        ("agents:", "sessions: {record: false}\nentry_agent: b # a comment\nagents:"),
    ] {
        assert!(CONFIG.contains(from));
        assert_eq!(lines(&CONFIG.replacen(from, to, 1)), before, "{from}");
    }
}

#[test]
fn collector_of_telemetry_is_a_fact() {
    let text =
        "telemetry: {otlp: {endpoint: 'https://otel.example/${TEAM}', headers: {authorization: 'Bearer ${TOKEN}'}}}";
    let all = lines(text);
    let shown = "`https://otel.example/${TEAM}`";
    assert_eq!(
        all,
        [
            format!("telemetry has the environment variable `TEAM` in its address {shown}"),
            format!("telemetry sends the environment variable `TOKEN` in a header, to {shown}"),
            format!(
                "the collector of telemetry is at {shown}; names, times and costs of all runs are sent there, with their \
                 warnings and the logs of plugins"
            ),
        ]
    );
    let with_content = lines(&text.replace("{otlp", "{content: true, otlp"));
    assert!(with_content[2].ends_with("and their messages, arguments and results"), "{with_content:?}");
    assert_ne!(lines(&text.replace("otel.example", "evil.example")), all);
    assert_eq!(lines(&text.replace("otlp:", "service: birds, otlp:")), all, "a word in the data");
    let told = lines(&text.replace("otlp:", "propagate: ['https://api.example', all], otlp:"));
    for line in [
        "telemetry: `https://api.example` is told which span of a trace a request belongs to",
        "telemetry: all servers that requests go to are told which span of a trace a request belongs to",
    ] {
        assert!(told.iter().any(|there| there == line), "{told:?}");
    }
    let content_alone = lines("telemetry: {content: true}");
    assert_eq!(content_alone.len(), 1, "the environment may turn it on: {content_alone:?}");
}

#[test]
fn trigger_is_a_fact_with_its_event_and_task() {
    let of = |keys: &str| lines(&format!("agents: [{{name: ada}}]\ntriggers: [{{name: t, {keys}}}]"));
    let long = "x".repeat(301);
    let digest = Sha256Digest::of(&long).hex();
    for (keys, event, task) in [
        (
            "cron: '0 3 * * *', agent: ada, task: t".to_owned(),
            "`ada` by itself at `0 3 * * *` in `UTC`",
            "`t`".to_owned(),
        ),
        (
            "webhook: {secret: {env: X}}, task: t".into(),
            "the first agent by itself for webhooks that are signed with the environment variable `X`",
            "`t`".into(),
        ),
        (
            format!("files: {{paths: [a, 'b/**']}}, task: {long}"),
            "the first agent by itself when files of `a, b/**` change",
            format!("(sha256:{digest})"),
        ),
    ] {
        let expected = [
            format!("the trigger `t` gives the task {task}"),
            format!("the trigger `t` starts runs of {event}, if a server has --triggers"),
        ];
        let all = of(&keys);
        assert!(expected.iter().all(|line| all.contains(line)), "{all:?}");
    }
}

#[test]
fn plugin_facts_list_requests_and_credentials() {
    const WAY_OUT: &str = "
credentials:
  - {name: github, env: TOKEN, for: ['https://api.github.com', 'https://*.github.com/v3']}
  - {name: hub, file: keys/hub, for: [http://hub.lan]}
  - {name: shop, command: [pass, show, shop], for: ['https://shop.example']}
providers:
  - {name: own, kind: plugin, plugin: o, http: [{url: 'http://localhost:11434', methods: ['*']}], credentials: [hub]}
agents:
  - name: a
    plugins:
      fetch:
        confirm: true
        http:
          - https://*.github.com
          - {url: https://b\u{fc}cher.example, methods: [GET, PUT]}
          - {url: http://nas.lan, networks: [10.0.0.0/8]}
        credentials: [github, hub]
";
    let all = lines(WAY_OUT);
    assert_eq!(
        all,
        [
            "the agent `a`: the plugin `fetch` is used",
            "the agent `a`: the plugin `fetch` may send GET, HEAD requests to `http://nas.lan in 10.0.0.0/8`",
            "the agent `a`: the plugin `fetch` may send GET, HEAD requests to `http://nas.lan`",
            "the agent `a`: the plugin `fetch` may send GET, HEAD requests to `https://*.github.com`",
            "the agent `a`: the plugin `fetch` may send GET, PUT requests to `https://xn--bcher-kva.example`",
            "the agent `a`: the plugin `fetch` may send requests with the credential `github`",
            "the agent `a`: the plugin `fetch` may send requests with the credential `hub`",
            "the credential `github` is the environment variable `TOKEN`, sent to `https://*.github.com/v3`",
            "the credential `github` is the environment variable `TOKEN`, sent to `https://api.github.com`",
            "the credential `hub` is the content of the file `/nowhere/keys/hub`, sent to `http://hub.lan`",
            "the credential `shop` is the output of the program `pass show shop`, sent to `https://shop.example`",
            "the model `own`: its plugin may send requests of any method to `http://localhost:11434`",
            "the model `own`: its plugin may send requests with the credential `hub`",
        ]
    );
    for (from, to) in [
        ("env: TOKEN", "env: OTHER_TOKEN"),
        ("'https://api.github.com'", "'https://api.github.com.evil.example'"),
        ("keys/hub", "keys/other"),
        ("show, shop", "show shop"),
        ("[GET, PUT]", "[GET, PUT, POST]"),
        ("[GET, PUT]", "[]"),
        ("[GET, PUT]", "['*']"),
        ("[10.0.0.0/8]", "[10.0.0.0/7]"),
        ("credentials: [github, hub]", "credentials: [github, hub, shop]"),
        ("https://*.github.com\n", "https://*\n"),
        ("http://localhost:11434", "https://localhost:11434"),
        ("methods: ['*']", "methods: [POST]"),
    ] {
        assert!(WAY_OUT.contains(from), "{from}");
        assert_ne!(lines(&WAY_OUT.replacen(from, to, 1)), all, "{from}");
    }
    // A ceiling narrows the facts.
    let bounded = "    use: {http: ['https://a.github.com'], credentials: [hub]}\n    plugins:";
    let bounded = lines(&WAY_OUT.replace("    plugins:", bounded));
    let bounded: Vec<_> = bounded.into_iter().filter(|line| line.contains("`fetch` may")).collect();
    assert_eq!(
        bounded,
        [
            "the agent `a`: the plugin `fetch` may send GET, HEAD requests to `https://a.github.com`",
            "the agent `a`: the plugin `fetch` may send requests with the credential `hub`",
        ]
    );
}

#[test]
fn trust_in_all_methods_covers_fewer_methods() {
    let facts = |http: &str| {
        let text = format!("agents: [{{name: a, plugins: {{p: {{confirm: true, http: [{http}]}}}}}}]");
        Config::parse(&text, "/nowhere".into()).unwrap_or_else(|report| panic!("{report}")).facts()
    };
    let before = |places: &[&str]| -> TrustFacts {
        let who = "the agent `a`: the plugin `p`";
        let sends = places.iter().map(|place| format!("{who} may send requests to `{place}`"));
        sends.chain([format!("{who} is used")]).collect()
    };
    for (http, places, is_asked) in [
        ("'https://h'", &["https://h"][..], false),
        ("'https://h'", &["GET https://h", "HEAD https://h"], false),
        ("'https://h'", &["GET https://h"], true),
        ("'https://h'", &["https://other"], true),
        ("{url: 'https://h', methods: [PUT]}", &["https://h"], false),
        ("{url: 'https://h', methods: [PUT]}", &["PUT https://h"], false),
        ("{url: 'https://h', methods: [PUT, POST]}", &["PUT https://h"], true),
        ("{url: 'https://h', methods: ['*']}", &["https://h"], false),
        ("{url: 'https://h', methods: ['*']}", &["GET https://h", "POST https://h"], true),
        ("{url: 'https://h', networks: [10.0.0.0/8]}", &["https://h", "https://h in 10.0.0.0/8"], false),
        ("{url: 'https://h', networks: [10.0.0.0/8]}", &["https://h"], true),
    ] {
        assert_eq!(!facts(http).without(&before(places)).is_empty(), is_asked, "{http} {places:?}");
    }
}

#[test]
fn changed_command_or_vendor_fields_change_facts() {
    let of = |more: &str| lines(&format!("providers: [{{name: a, kind: anthropic, model: m, {more}}}]"));
    let command = of("api_key_command: [/bin/sh, -c, 'pass show x']");
    assert!(command.iter().any(|line| line.contains(r#"runs `/bin/sh -c "pass show x"`"#)), "{command:?}");
    for other in ["[/bin/sh, -c, pass, show, x]", "['/bin/sh -c', pass, show, x]", "[/bin/sh, '-c \"pass', 'show x\"']"]
    {
        assert_ne!(of(&format!("api_key_command: {other}")), command, "{other}");
    }
    let tells = "body: {mcp_servers: [{url: 'https://a.example'}], top_k: 3}";
    let told = of(tells);
    let line = "the model `a` gets request fields from the config: `mcp_servers`, `top_k` (sha256:";
    assert!(told.iter().any(|found| found.starts_with(line)), "{told:?}");
    assert_ne!(of(&tells.replace("a.example", "b.example")), told);
}

#[test]
fn names_cannot_forge_a_line_or_act_on_the_terminal() {
    let evil = r#""a`: the plugin `p` is used\nx\e[2J\u202e""#;
    let text = format!(
        "providers: [{{name: {evil}, kind: openai, model: m, base_url: {evil}, api_key: \"${{\\e}}\"}}]\n\
             agents: [{{name: {evil}, plugins: {{{evil}: {{files: [{{path: {evil}}}]}}}}}}]\n"
    );
    let lines = lines(&text);
    assert_eq!(lines.len(), 4, "{lines:?}");
    for line in lines {
        assert!(!line.contains(crate::error::acts_on_terminal) && line.contains("\\u{60}"), "{line}");
    }
}

#[test]
#[cfg(unix)]
fn linked_folder_is_listed_by_its_target() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), root.path().join("docs")).unwrap();
    let facts = Config::parse(CONFIG, root.path().into()).unwrap().facts();
    let path = quoted_path(&elsewhere.path().canonicalize().unwrap());
    assert!(facts.lines().any(|line| line.ends_with(&format!("may read {path}"))), "{facts:?}");
}

const SERVERS: &str = "
mcp_servers:
  - {name: files, command: npx, args: [-y, 'a b'], env: {KEY: '${TOKEN}', MODE: fast}, cwd: sub, roots: [docs]}
  - {name: web, url: 'https://h.example/${PART}', headers: {x-key: 'a ${KEY}', x-plain: b}, oauth: {client_id: us,
     client_secret: '${SECRET}', client_metadata_url: 'https://us/c.json', scopes: [read], grant: client, issuer: 'https://i.example',
     networks: [10.0.0.0/8]}}
agents:
  - {name: a, toolboxes: [tasks, files, {name: web, confirm: true, sampling: true, elicitation: true}]}
";

#[test]
fn mcp_server_facts_list_targets_and_requests() {
    let all = lines(SERVERS);
    let (digests, plain): (Vec<_>, Vec<_>) = all.iter().partition(|line| line.contains("(sha256:"));
    assert_eq!(
        plain,
        [
            "the MCP server `files` gets the environment variable `TOKEN` as `KEY`",
            "the MCP server `files` is given the folder `/nowhere/docs` as a root",
            r#"the MCP server `files` is the program `npx -y "a b"`, run outside the sandbox in `/nowhere/sub`"#,
            "the MCP server `web` gets the environment variable `KEY` in a header, at `https://h.example/${PART}`",
            "the MCP server `web` has the authorization server `https://i.example`",
            "the MCP server `web` has the environment variable `PART` in its address `https://h.example/${PART}`",
            "the MCP server `web` has the environment variable `SECRET` sent to its authorization server",
            "the MCP server `web` is at `https://h.example/${PART}`; the arguments of its tools are sent there",
            "the MCP server `web` is logged in to as the client `https://us/c.json`",
            "the MCP server `web` is logged in to as the client `us`",
            "the MCP server `web` is logged in to by this program, without you",
            "the MCP server `web` is logged in to with the scope `read`",
            "the MCP server `web` may have its authorization server in the network `10.0.0.0/8`",
            "the agent `a`: the MCP server `files` is used, asking you only before calls that the server calls destructive",
            "the agent `a`: the MCP server `web` is used",
            "the agent `a`: the MCP server `web` may ask you questions",
            "the agent `a`: the MCP server `web` may request completions from the agent's model",
        ]
    );
    assert_eq!(digests.len(), 2, "what stands in its environment may make a program do anything: {digests:?}");
    for (from, to) in [
        ("command: npx", "command: npy"),
        ("'a b'", "'a c'"),
        ("MODE: fast", "MODE: slow"),
        ("MODE: fast", "LD_PRELOAD: fast"),
        ("cwd: sub", "cwd: other"),
        ("h.example", "i.example"),
        ("confirm: true", "confirm: false"),
        ("[docs]", "[docs, more]"),
    ] {
        assert!(SERVERS.contains(from), "{from}");
        assert_ne!(lines(&SERVERS.replacen(from, to, 1)), all, "{from}");
    }
    let quieter = SERVERS.replace("confirm: true, ", "confirm: true, tools: [find], ");
    assert_eq!(lines(&quieter), all, "fewer tools are nothing to be asked about");
}

#[test]
fn program_facts_list_programs_and_users() {
    let text = "programs:\n\
                \x20 cargo: {args: [[test, '**'], [build]], cwd: sub, env: {TERM: dumb}, inherit_env: [PATH], timeout: 5m}\n\
                \x20 fmt: {command: ./tools/my fmt}\n\
                git: {work_dir: sub}\n\
                agents: [{name: a, toolboxes: [exec, git]}, {name: b, toolboxes: [{name: exec, programs: [fmt]}],\n\
                \x20 plugins: {p: {programs: [cargo, fmt]}}, use: {programs: [cargo]}}]";
    assert_eq!(
        lines(text),
        [
            "the agent `a` may run programs outside the sandbox, after asking you about each",
            "the agent `a` may use git in `/nowhere/sub`, after asking you",
            "the agent `b` may run the program `fmt` without asking you",
            "the agent `b`: the plugin `p` is used, without asking you before each call",
            "the agent `b`: the plugin `p` may run the program `cargo`",
            "the program `cargo` gets the environment variable `PATH`",
            "the program `cargo` has `TERM` in its environment (sha256:ac996ae492f9a987c84f109f2118d3f6632e2259455d30c455a9ecd66c3c4959)",
            r#"the program `cargo` is `cargo`, run outside the sandbox in `/nowhere/sub`, with the arguments `["test", "**"] or ["build"]`"#,
            r#"the program `fmt` is `"./tools/my fmt"`, run outside the sandbox in `/nowhere`, with the arguments `[]`"#,
        ]
    );
    // Any change of a program changes a line, however long its lists are.
    let long = |last: &str| {
        let word = "x".repeat(400);
        lines(&format!("programs: {{p: {{args: [[{word}, {last}]]}}}}"))
    };
    assert_ne!(long("a"), long("b"));
}

#[test]
fn api_facts_list_documents_servers_and_methods() {
    let root = tempfile::tempdir().unwrap();
    let document = "openapi: 3.0.0\nservers: [{url: 'https://h.example/v1'}]\n\
                    paths: {/pets: {get: {operationId: list}, post: {operationId: add}}}\n";
    std::fs::write(root.path().join("pets.yaml"), document).unwrap();
    let text = "credentials: [{name: key, env: KEY, for: ['https://h.example']}]\n\
                openapi:\n- {name: pets, document: pets.yaml, credential: key, networks: [10.0.0.0/8]}\n\
                - {name: web, document: 'https://w.example/o.json'}\n\
                agents: [{name: a, openapi: [{name: pets, operations: [list], confirm: false}, web]}]\n";
    let config = Config::parse(text, root.path().into()).unwrap();
    config.read_api_files();
    let facts = config.facts();
    let all: Vec<_> = facts.lines().filter(|line| line.contains("API")).collect();
    let file = quoted_path(&root.path().canonicalize().unwrap().join("pets.yaml"));
    let described = format!(
        "the API `pets` is described by the file {file}; the arguments of its tools are sent to `https://h.example/v1`"
    );
    assert_eq!(
        all,
        [
            "the API `pets` gets the credential `key`",
            described.as_str(),
            "the API `pets` may have its server in the network `10.0.0.0/8`",
            "the API `web` is described by the document at `https://w.example/o.json`; the arguments of its tools are sent to \
             `https://w.example`",
            "the agent `a`: the API `pets` is used, without asking you before each call",
            "the agent `a`: the API `pets` may send GET requests to `https://h.example/v1`",
            "the agent `a`: the API `web` is used, asking you only before calls other than GET and HEAD",
            "the agent `a`: the API `web` may send requests of any method to `https://w.example`",
        ]
    );
}

#[test]
fn remote_agent_facts_list_its_origin_and_credential() {
    let text = "credentials: [{name: key, env: KEY, for: ['https://h.example']}]\n\
                agents: [{name: a, remote: {card: 'https://h.example/card.json', credential: key, networks: [10.0.0.0/8]}}]\n";
    let config = Config::parse(text, "/nowhere".into()).unwrap();
    let facts = config.facts();
    let all: Vec<_> = facts.lines().filter(|line| line.contains("the agent `a`")).collect();
    for line in [
        "the agent `a` gets the credential `key`",
        "the agent `a` is one of another host: its tasks are sent to the origin of `https://h.example/card.json`",
        "the agent `a` may have its host in the network `10.0.0.0/8`",
    ] {
        assert!(all.contains(&line), "{line}: {all:?}");
    }
    let elsewhere =
        Config::parse(&text.replace("h.example/card", "i.example/card"), "/nowhere".into()).unwrap().facts();
    assert!(
        elsewhere.lines().any(|line| line.contains("i.example") && !all.contains(&line)),
        "it is asked about again"
    );
}
