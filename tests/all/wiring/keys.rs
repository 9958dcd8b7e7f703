//! Every key of the config, and the test that shows that it does something.

/// A config in parts, so that two of them differ in one key alone.
#[derive(Clone, Copy)]
pub struct Parts {
    top: &'static str,
    /// Of the model.
    model: &'static str,
    /// More of its keys.
    keys: &'static str,
    price: &'static str,
    /// Of the agent that runs.
    name: &'static str,
    agent: &'static str,
    depth: &'static str,
    options: &'static str,
    /// Of one that it can delegate to.
    other: &'static str,
    /// The calls that the models make, one a reply; then they answer.
    pub calls: &'static [(&'static str, &'static str)],
}

const BASE: Parts = Parts {
    top: "",
    model: "kind: openai, base_url: 'URL/v1', model: one",
    keys: "",
    price: "{input: 1, output: 1}",
    name: "ada",
    agent: "",
    depth: "1",
    options: "",
    other: "",
    calls: &[],
};

impl Parts {
    pub fn config(&self, url: &str) -> String {
        let Self { top, model, keys, price, name, agent, depth, options, other, .. } = self;
        format!(
            "{top}\n\
             providers:\n  - {{name: first, price: {price}, {model}, {keys}}}\n  - {{name: second, kind: openai, base_url: 'URL/v1', model: two}}\n\
             agents:\n  - {{name: {name}, options: {{max_delegation_depth: {depth}{options}}}{agent}}}\n  \
             - {{name: bob{other}}}\n  - {{name: cy}}\n"
        )
        .replace("URL", url)
    }
}

/// The way in which a key is shown to do something.
#[expect(clippy::large_enum_variant, reason = "there are a few dozen of them, in a test")]
pub enum Shown {
    /// This is seen of a run with the first, and not of one with the second.
    Seen(&'static str, Parts, Parts),
    /// This test shows it.
    By(&'static str, &'static str),
}
use Shown::{By, Seen};

const fn agent(agent: &'static str) -> Parts {
    Parts { agent, ..BASE }
}

const fn options(options: &'static str) -> Parts {
    Parts { options, ..BASE }
}

const fn other(other: &'static str) -> Parts {
    Parts { other, ..BASE }
}

const fn top(top: &'static str) -> Parts {
    Parts { top, ..BASE }
}

const fn model(model: &'static str) -> Parts {
    Parts { model, ..BASE }
}

/// A model that is served, with these keys.
const fn served(keys: &'static str) -> Parts {
    Parts { keys, ..BASE }
}

/// One task for `bob`.
const TASK: (&str, &str) = ("delegate", r#"{"tasks": [{"agent": "bob", "task": "t", "context": "c"}]}"#);
/// So many that some of them are at work at once, whatever else the machine does.
const TASKS: (&str, &str) = (
    "delegate",
    r#"{"tasks": [
        {"agent": "bob", "task": "t", "context": "c"}, {"agent": "bob", "task": "t", "context": "c"},
        {"agent": "bob", "task": "t", "context": "c"}, {"agent": "bob", "task": "t", "context": "c"},
        {"agent": "bob", "task": "t", "context": "c"}, {"agent": "bob", "task": "t", "context": "c"},
        {"agent": "bob", "task": "t", "context": "c"}, {"agent": "bob", "task": "t", "context": "c"},
        {"agent": "bob", "task": "t", "context": "c"}, {"agent": "bob", "task": "t", "context": "c"},
        {"agent": "bob", "task": "t", "context": "c"}, {"agent": "bob", "task": "t", "context": "c"},
        {"agent": "bob", "task": "t", "context": "c"}, {"agent": "bob", "task": "t", "context": "c"},
        {"agent": "bob", "task": "t", "context": "c"}, {"agent": "bob", "task": "t", "context": "c"}
    ]}"#,
);
const LIST: (&str, &str) = ("list_agents", "{}");
const COUNT: (&str, &str) = ("count_text", r#"{"text": "a"}"#);

const fn calling(parts: Parts, calls: &'static [(&'static str, &'static str)]) -> Parts {
    Parts { calls, ..parts }
}

/// The tests in which guests exceed limits.
const LIMITS: &str = "hostile/limits.rs";
/// The tests of model keys that need a server of their own.
const CONFIGURED: &str = "providers/configured.rs";
/// The file that reads HTTP grants and credentials.
const WAY_OUT: &str = "../../host/src/config/egress.rs";
/// The file that reads MCP servers.
const SERVERS: &str = "../../host/src/config/mcp.rs";
/// The file that reads APIs.
const APIS: &str = "../../host/src/config/openapi/tests.rs";
/// The file that reads programs.
const PACKAGES: &str = "packages.rs";
const PROGRAMS: &str = "../../host/src/config/programs.rs";
/// The tests that run teams of a config.
const TEAMS: &str = "teams/configured.rs";
/// A team to which can be delegated.
const TEAM: Parts = top("teams: [{name: t, members: [bob]}]");
/// The file that reads agent tools.
const AGENT_TOOLS: &str = "../../host/src/config/agent_tools.rs";
/// A credential that nobody asks for.
const HELD: &str = "credentials: [{name: third, env: THIRD, for: ['https://h']}]";
/// The file that reads the limits of plugins.
const LIMITS_READ: &str = "../../host/src/config/plugin_limits.rs";
const EACH_LIMIT: &str = "guest_hits_each_configured_limit";

/// Every key, and what shows that it does something.
pub fn table() -> Vec<(&'static str, Shown)> {
    let poor = |price| Parts { price, ..agent(", budget: {usd: 0.01}") };
    let free = poor("{input: 0, output: 0}");
    vec![
        ("config.providers", Seen("POST /v1/chat", BASE, model("kind: plugin, plugin: offline-model"))),
        ("config.default_provider", Seen(r#""model":"two""#, top("default_provider: second"), BASE)),
        ("config.toolboxes", By("user_config/mod.rs", "user_wide_toolboxes_give_the_default_agent_hands")),
        (
            "config.credentials",
            Seen(
                "there is no credential `third`",
                agent(", plugins: {count-text: {credentials: [third]}}"),
                Parts { top: HELD, ..agent(", plugins: {count-text: {credentials: [third]}}") },
            ),
        ),
        ("credential.name", By(WAY_OUT, "credential_config_is_parsed")),
        ("credential.env", By(WAY_OUT, "credential_config_is_parsed")),
        ("credential.file", By(WAY_OUT, "credential_config_is_parsed")),
        ("credential.command", By(WAY_OUT, "credential_config_is_parsed")),
        ("credential.for", By(WAY_OUT, "credential_config_is_parsed")),
        ("credential.auth", By(WAY_OUT, "credential_config_is_parsed")),
        ("credential_auth.header", By(WAY_OUT, "credential_config_is_parsed")),
        ("credential_auth.scheme", By(WAY_OUT, "credential_config_is_parsed")),
        ("credential_auth.query", By(WAY_OUT, "credential_config_is_parsed")),
        ("config.mcp_servers", By(SERVERS, "mcp_server_config_is_parsed")),
        ("server.name", By(SERVERS, "mcp_server_config_is_parsed")),
        ("server.command", By(SERVERS, "mcp_server_config_is_parsed")),
        ("server.args", By("mcp.rs", "unreachable_mcp_server_is_reported_and_the_run_continues")),
        ("server.env", By("mcp.rs", "mcp_server_gets_only_the_configured_environment")),
        ("server.cwd", By("mcp.rs", "mcp_server_gets_only_the_configured_environment")),
        ("server.url", By("mcp.rs", "unreachable_mcp_server_is_reported_and_the_run_continues")),
        ("server.headers", By(SERVERS, "mcp_server_config_is_parsed")),
        ("server.oauth", By(SERVERS, "mcp_server_config_is_parsed")),
        ("server.protocol", By(SERVERS, "mcp_server_config_is_parsed")),
        ("server.roots", By("mcp.rs", "mcp_server_sees_roots_and_headless_elicitation_fails")),
        ("server.connect_timeout", By("mcp.rs", "mcp_server_gets_only_the_configured_environment")),
        ("server.timeout", By(SERVERS, "mcp_server_config_is_parsed")),
        ("server.output_chars", By(SERVERS, "mcp_server_config_is_parsed")),
        ("oauth.client_id", By(SERVERS, "mcp_server_config_is_parsed")),
        ("oauth.client_secret", By(SERVERS, "mcp_server_config_is_parsed")),
        ("oauth.client_metadata_url", By(SERVERS, "mcp_server_config_is_parsed")),
        ("oauth.scopes", By(SERVERS, "mcp_server_config_is_parsed")),
        ("oauth.grant", By(SERVERS, "mcp_server_config_is_parsed")),
        ("oauth.issuer", By(SERVERS, "mcp_server_config_is_parsed")),
        ("oauth.networks", By(SERVERS, "mcp_server_config_is_parsed")),
        ("config.openapi", By(APIS, "api_config_is_parsed")),
        ("agent.openapi", By(APIS, "api_config_is_parsed")),
        ("api.name", By(APIS, "api_config_is_parsed")),
        ("api.document", By(APIS, "api_config_is_parsed")),
        ("api.sha256", By(APIS, "api_config_is_parsed")),
        ("api.base", By(APIS, "api_config_is_parsed")),
        ("api.networks", By(APIS, "api_config_is_parsed")),
        ("api.credential", By(APIS, "api_config_is_parsed")),
        ("api_use.name", By(APIS, "api_config_is_parsed")),
        ("api_use.operations", By(APIS, "api_config_is_parsed")),
        ("api_use.confirm", By(APIS, "api_config_is_parsed")),
        ("toolbox.files", By("../../host/src/config/tests.rs", "shipped_toolbox_grants_its_plugins")),
        ("toolbox.http", By("../../host/src/config/tests.rs", "shipped_toolbox_grants_its_plugins")),
        ("toolbox.ask", By("toolboxes.rs", "forbidden_folder_requests_are_refused_without_asking")),
        ("toolbox.changes", By("../../host/src/config/tests.rs", "shipped_toolbox_grants_its_plugins")),
        ("plugin.ask", By("toolboxes.rs", "forbidden_folder_requests_are_refused_without_asking")),
        ("config.programs", By(PROGRAMS, "programs_are_read")),
        ("program.command", By(PROGRAMS, "programs_are_read")),
        ("program.args", By("programs.rs", "exec_runs_configured_programs_as_declared")),
        ("program.cwd", By("programs.rs", "exec_runs_configured_programs_as_declared")),
        ("program.env", By("programs.rs", "exec_runs_configured_programs_as_declared")),
        ("program.inherit_env", By("programs.rs", "exec_runs_configured_programs_as_declared")),
        ("program.timeout", By("programs.rs", "exec_runs_configured_programs_as_declared")),
        ("config.git", By("programs.rs", "git_runs_in_the_configured_folder")),
        ("git.work_dir", By("programs.rs", "git_runs_in_the_configured_folder")),
        ("toolbox.programs", By("programs.rs", "exec_runs_configured_programs_as_declared")),
        ("plugin.programs", By("programs.rs", "configured_plugin_runs_only_granted_programs")),
        ("grant.programs", By("programs.rs", "ceiling_bounds_programs")),
        ("toolbox.confirm", By("mcp.rs", "mcp_call_is_confirmed_and_trusted_like_a_plugin_call")),
        ("toolbox.sampling", By("mcp.rs", "mcp_sampling_needs_a_grant_and_is_charged_to_the_budget")),
        ("toolbox.elicitation", By("mcp.rs", "mcp_server_sees_roots_and_headless_elicitation_fails")),
        ("http.url", By(WAY_OUT, "http_grants_are_parsed")),
        ("http.methods", By(WAY_OUT, "http_grants_are_parsed")),
        ("http.networks", By(WAY_OUT, "http_grants_are_parsed")),
        ("config.plugin_dirs", Seen("nowhere", top("plugin_dirs: [nowhere]"), BASE)),
        ("config.plugin_index", By("packages/sources.rs", "plugin_is_found_and_installed_by_the_index_of_the_person")),
        ("config.plugin_signatures", By(PACKAGES, "plugin_without_a_required_signature_is_refused")),
        ("plugin_signatures.require", By(PACKAGES, "plugin_without_a_required_signature_is_refused")),
        ("signing_key.name", By(PACKAGES, "plugin_without_a_required_signature_is_refused")),
        ("signing_key.key", By(PACKAGES, "plugin_without_a_required_signature_is_refused")),
        ("config.agents", Seen("You are eve", Parts { name: "eve", ..BASE }, BASE)),
        ("config.teams", By(TEAMS, "delegated_team_is_bounded_by_both_delegable_ceilings")),
        ("team.name", By(TEAMS, "teams_nest_and_an_optional_member_may_fail")),
        ("team.members", By(TEAMS, "teams_nest_and_an_optional_member_may_fail")),
        ("team.coordinator", By(TEAMS, "teams_nest_and_an_optional_member_may_fail")),
        ("team.budget", By(TEAMS, "budgets_bound_a_team_and_each_member_per_step")),
        ("team.middleware", By(TEAMS, "what_stands_around_a_team_sees_its_task_and_its_answer")),
        ("team.use", By(TEAMS, "team_use_bounds_its_coordinator_plugin")),
        ("team.delegable", By(TEAMS, "delegated_team_is_bounded_by_both_delegable_ceilings")),
        (
            "team.description",
            Seen("- t: knows birds", top("teams: [{name: t, members: [bob], description: knows birds}]"), TEAM),
        ),
        (
            "team.instructions",
            Seen(
                "<team_instructions>",
                top("entry_agent: t\nteams: [{name: t, members: [bob], instructions: Be kind.}]"),
                top("entry_agent: t\nteams: [{name: t, members: [bob]}]"),
            ),
        ),
        ("team.hand_over", By("teams/plugins.rs", "coordinator_plugin_leads_configured_handoffs")),
        (
            "team.skills_tags",
            Seen("[skills: birds]", top("teams: [{name: t, members: [bob], skills_tags: [birds]}]"), TEAM),
        ),
        (
            "team.estimated_cost",
            Seen("[cost: cheap]", top("teams: [{name: t, members: [bob], estimated_cost: cheap}]"), TEAM),
        ),
        (
            "team.provider",
            Seen(
                r#""model":"two""#,
                top("entry_agent: t
teams: [{name: t, members: [bob], coordinator: model, provider: second}]"),
                top("entry_agent: t
teams: [{name: t, members: [bob], coordinator: model}]"),
            ),
        ),
        (
            "team.prefix",
            Seen(
                "🐦",
                top("entry_agent: t
teams: [{name: t, members: [bob], prefix: 🐦}]"),
                top("entry_agent: t
teams: [{name: t, members: [bob]}]"),
            ),
        ),
        ("member.agent", By(TEAMS, "teams_nest_and_an_optional_member_may_fail")),
        ("member.name", By(TEAMS, "teams_nest_and_an_optional_member_may_fail")),
        ("member.retries", By(TEAMS, "teams_nest_and_an_optional_member_may_fail")),
        ("member.on_failure", By(TEAMS, "teams_nest_and_an_optional_member_may_fail")),
        ("member.role", By("../../host/src/config/team.rs", "members_and_coordinators_are_read")),
        (
            "member.description",
            Seen(
                "hums",
                top("entry_agent: t
teams: [{name: t, members: [{agent: bob, description: hums}], coordinator: model}]"),
                top("entry_agent: t
teams: [{name: t, members: [{agent: bob}], coordinator: model}]"),
            ),
        ),
        ("config.entry_agent", Seen("You are bob", top("entry_agent: bob"), BASE)),
        ("config.default_context_windows", Seen("Some(7777)", top("default_context_windows: {openai: 7777}"), BASE)),
        (
            "config.context",
            Seen("[truncated: only the first 9 bytes", top("context: {max_external_file_size: 9}"), BASE),
        ),
        ("config.theme", By("terminal.rs", "theme_of_the_person_colours_the_answer")),
        ("config.sessions", By("sessions/resume.rs", "sessions_config_controls_recording")),
        ("sessions.record", By("sessions/resume.rs", "sessions_config_controls_recording")),
        ("sessions.max_bytes", By("sessions/resume.rs", "sessions_config_controls_recording")),
        ("sessions.max_total_bytes", By("sessions/resume.rs", "sessions_config_controls_recording")),
        (
            "config.runs",
            Seen(
                "this run has started its maximum of",
                calling(top("runs: {agents: 1}"), &[TASKS]),
                calling(BASE, &[TASKS]),
            ),
        ),
        (
            "runs.agents",
            Seen(
                "this run has started its maximum of 2 agents",
                calling(top("runs: {agents: 2}"), &[TASKS]),
                calling(top("runs: {agents: 100}"), &[TASKS]),
            ),
        ),
        (
            "runs.working_agents",
            Seen(
                "at once: 2\n",
                calling(top("runs: {working_agents: 1}"), &[TASKS]),
                calling(top("runs: {working_agents: 8}"), &[TASKS]),
            ),
        ),
        ("runs.chat_bytes", By("minds/bounds.rs", "agent_fails_when_the_chat_memory_is_full")),
        ("config.limits", By(LIMITS, "plugin_limits_override_global_limits")),
        ("plugin.limits", By(LIMITS, "plugin_limits_override_global_limits")),
        ("provider.limits", By(LIMITS, "provider_limits_override_global_limits")),
        ("limits.time", By(LIMITS, EACH_LIMIT)),
        ("limits.cpu", By(LIMITS, EACH_LIMIT)),
        ("limits.memory_bytes", By(LIMITS, EACH_LIMIT)),
        ("limits.table_elements", By(LIMITS, EACH_LIMIT)),
        ("limits.stack_bytes", By(LIMITS, EACH_LIMIT)),
        ("limits.total_memory_bytes", By("hostile/memory.rs", "config_bounds_the_total_plugin_memory")),
        ("limits.input_bytes", By(LIMITS, EACH_LIMIT)),
        ("limits.output_bytes", By(LIMITS, EACH_LIMIT)),
        ("limits.host_calls_per_second", By(LIMITS, EACH_LIMIT)),
        ("limits.instances", By(LIMITS, "component_over_the_instances_limit_is_not_loaded")),
        ("limits.log_entries", By(LIMITS, "log_entries_over_the_configured_limit_are_dropped")),
        ("limits.log_bytes", By(LIMITS, "log_entries_over_the_configured_limit_are_dropped")),
        ("limits.concurrency", By(LIMITS, "configured_concurrency_serialises_plugin_calls")),
        ("limits.state_bytes", By(LIMITS, "plugin_limits_override_global_limits")),
        ("limits.http_requests_per_minute", By(LIMITS_READ, "invalid_plugin_limit_is_refused_by_name")),
        ("limits.http_concurrency", By(LIMITS_READ, "invalid_plugin_limit_is_refused_by_name")),
        ("limits.http_request_bytes", By(LIMITS_READ, "invalid_plugin_limit_is_refused_by_name")),
        ("limits.http_response_bytes", By(LIMITS_READ, "invalid_plugin_limit_is_refused_by_name")),
        (
            "context.max_external_file_size",
            Seen(
                "[truncated: only the first 9 bytes",
                top("context: {max_external_file_size: 9}"),
                top("context: {max_external_file_size: 0}"),
            ),
        ),
        ("provider.name", Seen(r#""model":"two""#, agent(", provider: second"), agent(", provider: third"))),
        ("provider.kind", Seen("I am offline-model", model("kind: plugin, plugin: offline-model"), BASE)),
        (
            "provider.plugin",
            Seen(
                "I am offline-model",
                model("kind: plugin, plugin: offline-model"),
                model("kind: plugin, plugin: count-text"),
            ),
        ),
        (
            "provider.params",
            Seen(
                "asked to fail",
                model("kind: plugin, plugin: probe-hooks, params: {provider: error-denied}"),
                model("kind: plugin, plugin: probe-hooks"),
            ),
        ),
        (
            "provider.clock",
            Seen(
                "providers.first grants `clock`, which",
                model("kind: plugin, plugin: offline-model, clock: true"),
                model("kind: plugin, plugin: offline-model"),
            ),
        ),
        (
            "provider.random",
            Seen(
                "providers.first grants `random`, which",
                model("kind: plugin, plugin: offline-model, random: true"),
                model("kind: plugin, plugin: offline-model"),
            ),
        ),
        (
            "provider.kv",
            Seen(
                "providers.first grants `kv`, which",
                model("kind: plugin, plugin: offline-model, kv: run"),
                model("kind: plugin, plugin: offline-model"),
            ),
        ),
        (
            "provider.http",
            Seen(
                "providers.first grants `http`, which",
                model("kind: plugin, plugin: offline-model, http: ['https://h']"),
                model("kind: plugin, plugin: offline-model"),
            ),
        ),
        (
            "provider.credentials",
            Seen(
                "providers.first grants `credentials`, which",
                Parts { top: HELD, ..model("kind: plugin, plugin: offline-model, credentials: [third]") },
                Parts { top: HELD, ..model("kind: plugin, plugin: offline-model") },
            ),
        ),
        (
            "provider.base_url",
            Seen("POST /elsewhere/chat", model("kind: openai, base_url: 'URL/elsewhere', model: one"), BASE),
        ),
        (
            "provider.api_key",
            Seen("Bearer sk-1", model("kind: openai, base_url: 'URL/v1', model: one, api_key: sk-1"), BASE),
        ),
        (
            "provider.api_key_file",
            Seen("Bearer tweet tweet", served("api_key_file: docs/bird.txt"), served("api_key: sk-1")),
        ),
        (
            "provider.api_key_command",
            Seen("Bearer sk-cmd-12345", served("api_key_command: [echo, sk-cmd-12345]"), served("api_key: sk-1")),
        ),
        (
            "provider.auth",
            Seen(
                "x-own-key: Key sk-1",
                served("api_key: sk-1, auth: {header: x-own-key, scheme: Key}"),
                served("api_key: sk-1"),
            ),
        ),
        (
            "auth.header",
            Seen("x-own-key: sk-1", served("api_key: sk-1, auth: {header: x-own-key}"), served("api_key: sk-1")),
        ),
        (
            "auth.scheme",
            Seen(
                "authorization: Key sk-1",
                served("api_key: sk-1, auth: {header: authorization, scheme: Key}"),
                served("api_key: sk-1, auth: {header: authorization}"),
            ),
        ),
        ("provider.headers", Seen("x-team: birds", served("headers: {x-team: birds}"), BASE)),
        ("provider.body", Seen(r#""top_p":0.5"#, served("body: {top_p: 0.5}"), BASE)),
        (
            "provider.proxy",
            Seen(
                "POST http://api.example/v1/chat",
                model("kind: openai, base_url: 'http://api.example/v1', model: one, proxy: 'URL'"),
                // A server on this machine is never asked for through a proxy.
                served("proxy: 'URL'"),
            ),
        ),
        ("provider.retries", By(CONFIGURED, "what_may_pass_is_tried_as_often_as_is_said")),
        ("provider.timeout", By(CONFIGURED, "provider_timeouts_are_honoured")),
        ("provider.idle_timeout", By(CONFIGURED, "provider_timeouts_are_honoured")),
        ("provider.api", Seen("POST /v1/responses", served("api: responses"), BASE)),
        ("provider.printed_calls", By(CONFIGURED, "printed_tool_calls_are_parsed_if_enabled")),
        (
            "provider.prompt_cache",
            Seen("cache_control", served("api: messages"), served("api: messages, prompt_cache: false")),
        ),
        (
            "provider.encrypted_reasoning",
            Seen(
                "reasoning.encrypted_content",
                served("api: responses, encrypted_reasoning: true"),
                served("api: responses"),
            ),
        ),
        ("provider.batch", By(CONFIGURED, "requests_are_batched_if_configured")),
        ("batch.window", By(CONFIGURED, "requests_are_batched_if_configured")),
        ("batch.poll_interval", By(CONFIGURED, "requests_are_batched_if_configured")),
        ("batch.timeout", By(CONFIGURED, "requests_are_batched_if_configured")),
        ("batch.max_size", By(CONFIGURED, "requests_are_batched_if_configured")),
        ("provider.rate_limit", By(CONFIGURED, "what_may_be_asked_in_a_minute_is_not_exceeded")),
        ("rate_limit.input_tpm", By(CONFIGURED, "what_may_be_asked_in_a_minute_is_not_exceeded")),
        ("rate_limit.output_tpm", By(CONFIGURED, "what_may_be_asked_in_a_minute_is_not_exceeded")),
        ("rate_limit.rpm", By(CONFIGURED, "what_may_be_asked_in_a_minute_is_not_exceeded")),
        ("provider.model", Seen(r#""model":"three""#, model("kind: openai, base_url: 'URL/v1', model: three"), BASE)),
        (
            "provider.context_window",
            Seen("Some(5555)", model("kind: openai, base_url: 'URL/v1', model: one, context_window: 5555"), BASE),
        ),
        (
            "provider.max_tokens",
            Seen(r#""max_tokens":77"#, model("kind: openai, base_url: 'URL/v1', model: one, max_tokens: 77"), BASE),
        ),
        (
            "provider.max_tokens_field",
            Seen(
                r#""max_completion_tokens":77"#,
                model(
                    "kind: openai, base_url: 'URL/v1', model: one, max_tokens: 77, max_tokens_field: max_completion_tokens",
                ),
                model("kind: openai, base_url: 'URL/v1', model: one, max_tokens: 77"),
            ),
        ),
        (
            "provider.temperature",
            Seen(
                r#""temperature":0.25"#,
                model("kind: openai, base_url: 'URL/v1', model: one, temperature: 0.25"),
                BASE,
            ),
        ),
        ("provider.price", Seen("requests: 1", poor("{input: 0.01, output: 0.01}"), poor("null"))),
        ("price.input", Seen("requests: 0", poor("{input: 1000000, output: 0}"), free)),
        ("price.output", Seen("requests: 0", poor("{input: 0, output: 1000000}"), free)),
        ("price.cache_read", Seen("requests: 0", poor("{input: 0, output: 0, cache_read: 1000000}"), free)),
        ("price.cache_write", Seen("requests: 0", poor("{input: 0, output: 0, cache_write: 1000000}"), free)),
        ("agent.name", Seen("You are eve", Parts { name: "eve", ..BASE }, BASE)),
        ("agent.description", Seen("- bob: knows birds", other(", description: knows birds"), BASE)),
        ("agent.instructions", Seen("Be a bird.", agent(", instructions: Be a bird."), BASE)),
        ("agent.provider", Seen(r#""model":"two""#, agent(", provider: second"), BASE)),
        ("agent.prefix", Seen("🐦", agent(", prefix: 🐦"), BASE)),
        ("agent.toolboxes", Seen("write_note", agent(", toolboxes: [notes]"), BASE)),
        ("agent.skills", Seen("When to fly.", BASE, agent(", skills: []"))),
        ("agent.skills_tags", Seen("[skills: birds]", other(", skills_tags: [birds]"), BASE)),
        ("agent.estimated_cost", Seen("[cost: cheap]", other(", estimated_cost: cheap"), BASE)),
        (
            "agent.max_concurrency",
            Seen("at once: 2", calling(other(", max_concurrency: 1"), &[TASKS]), calling(BASE, &[TASKS])),
        ),
        ("agent.budget", Seen("requests: 0", agent(", budget: {tokens: 5}"), BASE)),
        ("agent.plugins", Seen("count_text", agent(", plugins: {count-text: }"), BASE)),
        (
            "agent.agent_tools",
            Seen(
                r#""name":"bob""#,
                Parts { depth: "0", ..agent(", agent_tools: [bob]") },
                Parts { depth: "0", ..BASE },
            ),
        ),
        ("agent_tool.agent", By(AGENT_TOOLS, "agent_tools_are_parsed")),
        ("agent_tool.name", By(AGENT_TOOLS, "agent_tools_are_parsed")),
        ("agent_tool.description", By(AGENT_TOOLS, "agent_tools_are_parsed")),
        ("agent_tool.conversation", By(AGENT_TOOLS, "agent_tools_are_parsed")),
        ("agent_tool.input_schema", By(AGENT_TOOLS, "agent_tools_are_parsed")),
        ("agent_tool.instruction", By(AGENT_TOOLS, "agent_tools_are_parsed")),
        (
            "agent.effects",
            Seen(
                "effect_edited",
                calling(agent(", effects: [{kind: progress, params: {interval: 1}, powers: [note]}]"), &[LIST]),
                calling(BASE, &[LIST]),
            ),
        ),
        (
            "agent.middleware",
            Seen(
                "the attempt took longer than 0.000001 seconds",
                // A clock that ticks in milliseconds does not see a run that is shorter.
                calling(agent(", middleware: [{kind: timeout, params: {time: 1us}}]"), &[LIST; 30]),
                calling(BASE, &[LIST; 30]),
            ),
        ),
        ("agent.options", Seen(r#""name":"delegate""#, BASE, Parts { depth: "0", ..BASE })),
        ("budget.tokens", Seen("overspent", agent(", budget: {tokens: 20000}"), BASE)),
        ("budget.usd", Seen("the budget of $0.000001 is used up", agent(", budget: {usd: 0.000001}"), BASE)),
        (
            "budget.tool_calls",
            Seen(
                "the budget of 1 tool calls is used up",
                calling(agent(", budget: {tool_calls: 1}"), &[LIST, LIST]),
                calling(BASE, &[LIST, LIST]),
            ),
        ),
        ("budget.time", Seen("the time budget of 1us is used up", agent(", budget: {time: 1us}"), BASE)),
        ("toolbox.name", Seen("write_note", agent(", toolboxes: [{name: notes}]"), BASE)),
        (
            "toolbox.tools",
            Seen(
                r#""name":"write_note""#,
                agent(", toolboxes: [{name: notes}]"),
                agent(", toolboxes: [{name: notes, tools: [list_notes]}]"),
            ),
        ),
        (
            "toolbox.ns",
            Seen(
                "birds_state_get",
                agent(", toolboxes: [{name: state, ns: birds}]"),
                agent(", toolboxes: [{name: state}]"),
            ),
        ),
        (
            "plugin.files",
            Seen(
                "requests: 1",
                agent(", plugins: {read-files: {files: [{path: .}]}}"),
                agent(", plugins: {read-files: }"),
            ),
        ),
        (
            "plugin.clock",
            Seen(
                "grants `clock`, which",
                agent(", plugins: {count-text: {clock: true}}"),
                agent(", plugins: {count-text: }"),
            ),
        ),
        (
            "plugin.random",
            Seen(
                "grants `random`, which",
                agent(", plugins: {count-text: {random: true}}"),
                agent(", plugins: {count-text: }"),
            ),
        ),
        (
            "plugin.chat",
            Seen(
                "grants `chat`, which",
                agent(", plugins: {count-text: {chat: true}}"),
                agent(", plugins: {count-text: }"),
            ),
        ),
        (
            "plugin.kv",
            Seen("grants `kv`, which", agent(", plugins: {count-text: {kv: run}}"), agent(", plugins: {count-text: }")),
        ),
        (
            "plugin.powers",
            Seen(
                "effect_edited",
                agent(", plugins: {probe-hooks: {powers: [note], params: {effect: note}}}"),
                agent(", plugins: {probe-hooks: {params: {effect: note}}}"),
            ),
        ),
        (
            "plugin.models",
            Seen(
                "there is no model `third`",
                agent(", plugins: {count-text: {models: [third]}}"),
                agent(", plugins: {count-text: {models: [second]}}"),
            ),
        ),
        (
            "plugin.http",
            Seen(
                "grants `http`, which",
                agent(", plugins: {count-text: {http: ['https://h']}}"),
                agent(", plugins: {count-text: }"),
            ),
        ),
        (
            "plugin.credentials",
            Seen(
                "grants `credentials`, which",
                Parts { top: HELD, ..agent(", plugins: {count-text: {credentials: [third]}}") },
                Parts { top: HELD, ..agent(", plugins: {count-text: }") },
            ),
        ),
        (
            "plugin.confirm",
            Seen(
                "needs a person's consent",
                calling(agent(", plugins: {count-text: {confirm: true}}"), &[COUNT]),
                calling(agent(", plugins: {count-text: }"), &[COUNT]),
            ),
        ),
        ("plugin.changes", By("changes/mod.rs", "file_changes_are_approved_by_config_or_flag")),
        (
            "plugin.params",
            Seen(
                "middleware_acted",
                agent(", plugins: {probe-hooks: {params: {middleware: retry, times: 1}}}"),
                agent(", plugins: {probe-hooks: }"),
            ),
        ),
        (
            "plugin.on_failure",
            Seen(
                r#""skipped":true"#,
                agent(
                    ", plugins: {probe-hooks: {on_failure: skip, params: {effect: error-other, middleware: error-other}}}",
                ),
                agent(", plugins: {probe-hooks: {params: {effect: error-other}}}"),
            ),
        ),
        (
            "file.path",
            Seen(
                "requests: 1",
                agent(", plugins: {read-files: {files: [{path: docs}]}}"),
                agent(", plugins: {read-files: {files: [{path: nowhere}]}}"),
            ),
        ),
        (
            "file.as",
            Seen(
                "tweet tweet",
                calling(
                    agent(", plugins: {read-files: {files: [{path: docs, as: birds}]}}"),
                    &[("read_file", r#"{"path": "birds/bird.txt"}"#)],
                ),
                calling(
                    agent(", plugins: {read-files: {files: [{path: docs}]}}"),
                    &[("read_file", r#"{"path": "birds/bird.txt"}"#)],
                ),
            ),
        ),
        ("agent.use", By("ceilings.rs", "started_agent_is_limited_to_its_parents_delegable_grants")),
        ("agent.delegable", By("ceilings.rs", "ceiling_drops_tool_plugins_but_never_guards")),
        ("delegable.grant", By("ceilings.rs", "started_agent_is_limited_to_its_parents_delegable_grants")),
        ("delegable.agents", By("ceilings.rs", "delegable_bounds_agents_and_budget")),
        ("delegable.budget", By("ceilings.rs", "delegable_bounds_agents_and_budget")),
        ("grant.files", By("ceilings.rs", "started_agent_is_limited_to_its_parents_delegable_grants")),
        ("grant.clock", By("ceilings.rs", "ceiling_bounds_every_capability")),
        ("grant.random", By("ceilings.rs", "ceiling_bounds_every_capability")),
        ("grant.kv", By("ceilings.rs", "ceiling_bounds_every_capability")),
        ("grant.chat", By("ceilings.rs", "ceiling_bounds_every_capability")),
        ("grant.models", By("ceilings.rs", "ceiling_bounds_every_capability")),
        ("grant.http", By("ceilings.rs", "ceiling_bounds_every_capability")),
        ("grant.credentials", By("ceilings.rs", "ceiling_bounds_every_capability")),
        ("grant.mcp", By("mcp.rs", "ceiling_bounds_mcp_servers")),
        ("grant.powers", By("ceilings.rs", "ceiling_bounds_every_capability")),
        ("folder.path", By("ceilings.rs", "started_agent_is_limited_to_its_parents_delegable_grants")),
        ("folder.mode", By("ceilings.rs", "ceiling_bounds_every_capability")),
        ("file.mode", By("hostile/grants.rs", "read_only_folder_for_a_writing_plugin_is_warned_of")),
        (
            "options.max_iterations",
            Seen("outcome: failed", calling(options(", max_iterations: 1"), &[LIST]), calling(BASE, &[LIST])),
        ),
        (
            "options.warn_iterations",
            Seen("of 50 turns left", calling(options(", warn_iterations: 1"), &[LIST]), calling(BASE, &[LIST])),
        ),
        ("options.max_delegation_depth", Seen(r#""name":"delegate""#, BASE, Parts { depth: "0", ..BASE })),
        (
            "options.max_handoffs",
            Seen(
                "handed_over",
                calling(
                    other(", options: {max_handoffs: 1}"),
                    &[TASK, ("handoff", r#"{"target_agent": "cy", "reason": "r", "context": "c"}"#)],
                ),
                calling(BASE, &[TASK, ("handoff", r#"{"target_agent": "cy", "reason": "r", "context": "c"}"#)]),
            ),
        ),
        ("options.context_threshold", By("steps.rs", "known_window_adds_default_effects")),
        (
            "options.interaction_mode",
            Seen(r#""name":"answer_delegation_questions""#, options(", interaction_mode: interactive"), BASE),
        ),
        ("options.question_timeout", Seen("question_timeout: Some(90s)", options(", question_timeout: 90s"), BASE)),
        (
            "options.disable_behavioral_hints",
            Seen("behavioral_constraints", BASE, options(", disable_behavioral_hints: true")),
        ),
    ]
}
