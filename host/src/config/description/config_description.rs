//! The config as a whole.

use super::{
    AgentRuntimeInfo, ConfigRuntimeInfo, agents::agent_section, credentials::credential_section, fixed_limits,
    programs::program_section, providers::provider_section, section::SectionDescription, servers::server_section,
    teams::team_section,
};
use crate::{
    config::{
        Config, ContextConfig, GitConfig, SessionsConfig,
        effective_setting::{EffectiveSetting, SettingValue, is, map, or, word},
    },
    limits,
    trust::TrustFacts,
};

impl Config {
    /// Returns what the config names that reaches beyond it: addresses, environment variables that are sent there,
    /// plugins, and their grants. Links on the way to a granted folder are resolved. The directory and the bytes of a
    /// plugin are not included; the code that looks for plugins adds them.
    pub fn facts(&self) -> TrustFacts {
        config_description(self, &ConfigRuntimeInfo::default()).into_facts()
    }
}

/// Describes a config. Without an entry of `known` a part is described as if nothing were known of it.
pub(super) fn config_description(config: &Config, known: &ConfigRuntimeInfo) -> SectionDescription {
    let Config {
        providers,
        credentials,
        mcp_servers,
        programs,
        git: GitConfig { work_dir },
        plugin_dirs: _,
        agents,
        teams,
        entry_agent,
        default_context_windows,
        context: ContextConfig { max_external_file_size },
        sessions: SessionsConfig { record, max_bytes, max_total_bytes },
        runs,
        limits: bounds,
        root,
        // Approvals are not part of the file; they are disclosed with the permissions file, where they are stored.
        approved: _,
        file: _,
    } = config;
    let mut section = SectionDescription::default();
    section.show("root", is(root).noted("base of relative paths"));
    let prices = known.prices.iter().copied().chain(std::iter::repeat(None));
    section
        .show_list("providers", providers.iter().zip(prices).map(|(one, price)| provider_section(one, config, price)));
    section.show_list("credentials", credentials.iter().map(|one| credential_section(one, config)));
    section.show_list("mcp_servers", mcp_servers.iter().map(|one| server_section(one, config)));
    section
        .show_named("programs", programs.iter().map(|(name, one)| (name.clone(), program_section(name, one, config))));
    // Disclosed with the agents that use it.
    let work_dir = is(&root.join(work_dir)).noted_if(work_dir.as_os_str().is_empty(), "the root");
    section.show("git", map([("work_dir", work_dir)]));
    // The sizes of texts need no consent.
    let windows = default_context_windows.iter().map(|(kind, tokens)| (word(kind), is(tokens)));
    section.show("default_context_windows", EffectiveSetting::new(SettingValue::Map(windows.collect())));
    // Plugins are disclosed where they are used.
    section.show("plugin_dirs", is(&known.plugin_dirs));
    let info = |list: &[AgentRuntimeInfo], at: usize| list.get(at).cloned().unwrap_or_default();
    let agents_known = agents.iter().enumerate().map(|(at, one)| (one, info(&known.agents, at)));
    section.show_list("agents", agents_known.map(|(one, known)| agent_section(one, config, &known)));
    let teams_known = teams.iter().enumerate().map(|(at, one)| (one, info(&known.teams, at)));
    section.show_list("teams", teams_known.map(|(one, known)| team_section(one, config, &known)));
    // One of the agents and teams, which are all disclosed.
    let first = agents.first().map(|agent| agent.name.as_str());
    section.show(
        "entry_agent",
        entry_agent.as_deref().map_or_else(|| is(&first).noted("the first agent"), |name| is(&name)),
    );
    let positive = |bytes: &u64| Some(*bytes).filter(|bytes| *bytes > 0);
    section.show(
        "context",
        map([(
            "max_external_file_size",
            or(positive(max_external_file_size), limits::CONTEXT_FILE_BYTES, "bytes; default"),
        )]),
    );
    // Sizes of data within the project itself.
    section.show(
        "sessions",
        map([
            ("record", or(Some(*record).filter(|record| !record), true, "default")),
            ("max_bytes", or(positive(max_bytes), limits::SESSION_BYTES, "of one session; default")),
            ("max_total_bytes", or(positive(max_total_bytes), limits::SESSIONS_BYTES, "of all sessions; default")),
        ]),
    );
    // Numbers of agents and resources of plugin calls, below the fixed limits of the host.
    section.show("runs", runs.setting());
    section.show("limits", bounds.setting(known.guest_memory));
    section.show("house", fixed_limits::house());
    section
}
