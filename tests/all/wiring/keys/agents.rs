//! The keys of agents, and the tests that show that they do something.

use super::{
    BASE, HELD, Parts,
    Shown::{self, By, Seen},
    TASKS, agent, calling,
};

/// One task for `bob`.
const TASK: (&str, &str) = ("delegate", r#"{"tasks": [{"agent": "bob", "task": "t", "context": "c"}]}"#);
const LIST: (&str, &str) = ("list_agents", "{}");
const COUNT: (&str, &str) = ("count_text", r#"{"text": "a"}"#);
/// The file that reads agent tools.
const AGENT_TOOLS: &str = "../../host/src/config/agent_tools.rs";

/// The file that reads agents of other hosts.
const REMOTE: &str = "../../host/src/config/remote_agent.rs";

/// The file that leaves agents to workers.
const PLACED: &str = "../../host/src/config/placed_agents.rs";

const fn options(options: &'static str) -> Parts {
    Parts { options, ..BASE }
}

const fn other(other: &'static str) -> Parts {
    Parts { other, ..BASE }
}

/// The keys of an agent, and what shows that each does something.
pub fn rows() -> Vec<(&'static str, Shown)> {
    vec![
        ("agent.name", Seen("You are eve", Parts { name: "eve", ..BASE }, BASE)),
        ("agent.description", Seen("- bob: knows birds", other(", description: knows birds"), BASE)),
        ("agent.instructions", Seen("Be a bird.", agent(", instructions: Be a bird."), BASE)),
        ("agent.provider", Seen(r#""model":"two""#, agent(", provider: second"), BASE)),
        ("agent.remote", By(REMOTE, "remote_agent_config_is_parsed")),
        ("remote.card", By(REMOTE, "remote_agent_config_is_parsed")),
        ("remote.credential", By(REMOTE, "remote_agent_config_is_parsed")),
        ("remote.networks", By(REMOTE, "remote_agent_config_is_parsed")),
        ("agent.place", By(PLACED, "placed_runner_keeps_what_others_know_of_it")),
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
