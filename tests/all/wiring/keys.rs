//! Every key of the config, and the test that shows that it does something.

mod agents;
mod providers;

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

const fn top(top: &'static str) -> Parts {
    Parts { top, ..BASE }
}

const fn model(model: &'static str) -> Parts {
    Parts { model, ..BASE }
}

/// So many tasks for `bob` that some of them are at work at once, whatever else the machine does.
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

const fn calling(parts: Parts, calls: &'static [(&'static str, &'static str)]) -> Parts {
    Parts { calls, ..parts }
}

/// The tests in which guests exceed limits.
const LIMITS: &str = "hostile/limits.rs";
/// The file that reads HTTP grants and credentials.
const WAY_OUT: &str = "../../host/src/config/egress.rs";
/// The file that reads MCP servers.
const SERVERS: &str = "../../host/src/config/mcp.rs";
/// The file that gives a config's cluster to sessions.
const CLUSTER: &str = "../../host/src/assemble/cluster_sessions.rs";
/// The tests of the cluster that a config names.
const CLUSTER_CONFIG: &str = "../../host/src/config/cluster.rs";
/// The tests of workers with several namespaces.
const NAMESPACES: &str = "cluster/namespaces.rs";
/// The file that reads APIs.
const APIS: &str = "../../host/src/config/openapi/tests.rs";
/// The file that reads programs.
const PACKAGES: &str = "packages.rs";
const PROGRAMS: &str = "../../host/src/config/programs.rs";
/// The tests that run teams of a config.
const TEAMS: &str = "teams/configured.rs";
/// A team to which can be delegated.
const TEAM: Parts = top("teams: [{name: t, members: [bob]}]");
/// A credential that nobody asks for.
const HELD: &str = "credentials: [{name: third, env: THIRD, for: ['https://h']}]";
/// The file that reads the limits of plugins.
const LIMITS_READ: &str = "../../host/src/config/plugin_limits.rs";
const EACH_LIMIT: &str = "guest_hits_each_configured_limit";

/// Every key, and what shows that it does something.
pub fn table() -> Vec<(&'static str, Shown)> {
    let mut table = vec![
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
        ("team.place", By("../../host/src/config/placed_agents.rs", "placed_runner_keeps_what_others_know_of_it")),
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
        ("config.telemetry", By("telemetry.rs", "delegating_run_is_exported_as_one_tree")),
        ("telemetry.otlp", By("telemetry.rs", "delegating_run_is_exported_as_one_tree")),
        ("telemetry.service", By("telemetry.rs", "delegating_run_is_exported_as_one_tree")),
        ("telemetry.content", By("telemetry.rs", "content_is_exported_redacted_and_only_if_asked_for")),
        ("telemetry.propagate", By("serve/trace_context.rs", "one_trace_goes_over_hosts_and_servers")),
        ("otlp.endpoint", By("telemetry.rs", "delegating_run_is_exported_as_one_tree")),
        ("otlp.headers", By("telemetry.rs", "delegating_run_is_exported_as_one_tree")),
        ("otlp.timeout", By("telemetry.rs", "delegating_run_is_exported_as_one_tree")),
        ("otlp.protocol", By("telemetry.rs", "content_is_exported_redacted_and_only_if_asked_for")),
        ("config.triggers", By("serve/triggers.rs", "triggers_work_only_if_the_command_line_says_so")),
        ("trigger.name", By("serve/triggers.rs", "triggers_work_only_if_the_command_line_says_so")),
        ("trigger.cron", By("serve/triggers.rs", "triggers_work_only_if_the_command_line_says_so")),
        ("trigger.time_zone", By("serve/triggers.rs", "triggers_work_only_if_the_command_line_says_so")),
        ("trigger.agent", By("serve/triggers.rs", "triggers_work_only_if_the_command_line_says_so")),
        ("trigger.task", By("serve/triggers.rs", "triggers_work_only_if_the_command_line_says_so")),
        (
            "trigger.missed",
            By("../../host/src/serve/triggers/tests.rs", "time_that_is_missed_is_skipped_or_made_up_for_once"),
        ),
        (
            "trigger.overlap",
            By("../../host/src/serve/triggers/tests.rs", "firing_during_a_run_is_treated_as_the_config_says"),
        ),
        ("trigger.webhook", By("serve/triggers.rs", "signed_webhook_starts_one_run_with_its_values_as_data")),
        ("trigger.files", By("serve/triggers.rs", "changed_files_start_a_run")),
        ("webhook.secret", By("serve/triggers.rs", "signed_webhook_starts_one_run_with_its_values_as_data")),
        ("webhook.signature", By("serve/triggers.rs", "signed_webhook_starts_one_run_with_its_values_as_data")),
        ("webhook_secret.env", By("serve/triggers.rs", "signed_webhook_starts_one_run_with_its_values_as_data")),
        ("hmac_header.header", By("serve/triggers.rs", "webhooks_of_strangers_are_bounded")),
        ("hmac_header.prefix", By("serve/triggers.rs", "webhooks_of_strangers_are_bounded")),
        ("hmac_header.encoding", By("serve/triggers.rs", "webhooks_of_strangers_are_bounded")),
        ("hmac_header.delivery", By("serve/triggers.rs", "webhooks_of_strangers_are_bounded")),
        ("file_trigger.paths", By("serve/triggers.rs", "changed_files_start_a_run")),
        ("file_trigger.settle", By("serve/triggers.rs", "changed_files_start_a_run")),
        ("config.sessions", By("sessions/resume.rs", "sessions_config_controls_recording")),
        ("sessions.record", By("sessions/resume.rs", "sessions_config_controls_recording")),
        ("sessions.max_bytes", By("sessions/resume.rs", "sessions_config_controls_recording")),
        ("sessions.max_total_bytes", By("sessions/resume.rs", "sessions_config_controls_recording")),
        ("config.cluster", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster.nats", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster.namespace", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster.credentials", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster.certificates", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster.replicas", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster.lease", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster.encryption", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster_encryption.key", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster_encryption.old_keys", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster_encryption.accept_plain", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster_key.file", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster.limits", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster.namespaces", By(NAMESPACES, "worker_serves_two_accounts_apart")),
        ("cluster_namespace.namespace", By(NAMESPACES, "worker_serves_two_accounts_apart")),
        ("cluster_namespace.credentials", By(NAMESPACES, "worker_serves_two_accounts_apart")),
        ("cluster_namespace.encryption", By(CLUSTER_CONFIG, "further_namespaces_have_what_they_name_of_their_own")),
        ("cluster_namespace.limits", By(CLUSTER_CONFIG, "further_namespaces_have_what_they_name_of_their_own")),
        ("cluster_limits.runs", By("cluster/queue.rs", "limits_of_a_namespace_hold_with_several_workers")),
        ("cluster_limits.tokens", By("cluster/queue.rs", "limits_of_a_namespace_hold_with_several_workers")),
        ("cluster_limits.usd", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
        ("cluster_credentials.file", By(CLUSTER, "every_key_of_a_cluster_reaches_the_connection")),
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
    ];
    table.extend(providers::rows());
    table.extend(agents::rows());
    table
}
