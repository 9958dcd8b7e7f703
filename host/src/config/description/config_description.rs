//! The config as a whole.

use super::{
    AgentRuntimeInfo, ConfigRuntimeInfo, PluginRuntimeInfo, agents::agent_section, apis::api_section,
    cluster::cluster_section, credentials::credential_section, fixed_limits, plugins::PluginDescriber,
    programs::program_section, providers::provider_section, section::SectionDescription, servers::server_section,
    teams::team_section, telemetry::telemetry_section, toolboxes::toolbox_section, triggers::trigger_section,
    user_entries::disclose_user_entries,
};
use crate::{
    config::{
        Config, ConfigEntryKind, ContextConfig, GitConfig, SessionsConfig, ThemeChoice,
        effective_setting::{EffectiveSetting, SettingValue, is, map, or, word},
    },
    files, limits,
    trust::TrustFacts,
};

impl Config {
    /// Returns what the config names that reaches beyond it: addresses, environment variables that are sent there,
    /// plugins, and their grants. Links on the way to a granted folder are resolved. The directory and the bytes of a
    /// plugin are not included; the code that looks for plugins adds them.
    pub fn facts(&self) -> TrustFacts {
        let mut facts = self.facts_without_packages();
        facts.extend(self.package_facts());
        facts
    }

    /// Returns the same without the bytes of installed agent packages: what their agents reach, and not what they are told.
    pub fn facts_without_packages(&self) -> TrustFacts {
        config_description(self, &ConfigRuntimeInfo::default()).into_facts()
    }
}

/// Describes a config. What comes from the user-wide config is the person's own and no fact to consent to; that the project
/// uses or replaces it is one. Without an entry of `known` a part is described as if nothing were known of it.
pub(super) fn config_description(config: &Config, known: &ConfigRuntimeInfo) -> SectionDescription {
    let Config {
        providers,
        default_provider,
        credentials,
        mcp_servers,
        openapi,
        programs,
        git: GitConfig { work_dir },
        plugin_dirs: _,
        plugin_signatures,
        plugin_index,
        toolboxes: _,
        agents,
        teams,
        entry_agent,
        default_context_windows,
        context: ContextConfig { max_external_file_size },
        sessions: SessionsConfig { record, max_bytes, max_total_bytes },
        cluster,
        runs,
        limits: bounds,
        telemetry,
        triggers,
        theme,
        root,
        // Approvals are not part of the file; they are disclosed with the permissions file, where they are stored.
        approved: _,
        file: _,
        user,
    } = config;
    let of_project = |kind, name: &str, section: SectionDescription| match user.contains(kind, name) {
        true => section.without_facts(),
        false => section,
    };
    let of_runner = |section: SectionDescription| if user.has_runners { section.without_facts() } else { section };
    let mut section = SectionDescription::default();
    section.show("root", is(root).noted("base of relative paths"));
    let prices = known.prices.iter().copied().chain(std::iter::repeat(None));
    let providers_known = providers.iter().zip(prices);
    section.show_list(
        "providers",
        providers_known
            .map(|(one, price)| of_project(ConfigEntryKind::Model, &one.name, provider_section(one, config, price))),
    );
    let first = providers.first().map(|provider| provider.name.as_str());
    let default = match (default_provider, first) {
        (Some(name), _) => is(name),
        (None, Some(first)) => is(first).noted("the first provider"),
        (None, None) => is(&()).noted("discovered"),
    };
    section.show("default_provider", default);
    section.show_list(
        "credentials",
        credentials
            .iter()
            .map(|one| of_project(ConfigEntryKind::Credential, &one.name, credential_section(one, config))),
    );
    section.show_list(
        "mcp_servers",
        mcp_servers.iter().map(|one| of_project(ConfigEntryKind::McpServer, &one.name, server_section(one, config))),
    );
    section.show_list(
        "openapi",
        openapi.iter().map(|one| of_project(ConfigEntryKind::Api, &one.name, api_section(one, config))),
    );
    let programs = programs.iter().map(|(name, one)| {
        (name.clone(), of_project(ConfigEntryKind::Program, name, program_section(name, one, config)))
    });
    section.show_named("programs", programs);
    // Disclosed with the agents that use it.
    let work_dir = is(&files::without_dots(&root.join(work_dir))).noted_if(work_dir.as_os_str().is_empty(), "the root");
    section.show("git", map([("work_dir", work_dir)]));
    // The sizes of texts need no consent.
    let windows = default_context_windows.iter().map(|(kind, tokens)| (word(kind), is(tokens)));
    section.show("default_context_windows", EffectiveSetting::new(SettingValue::Map(windows.collect())));
    // Plugins are disclosed where they are used.
    section.show("plugin_dirs", is(&known.plugin_dirs));
    // Rules only forbid. Those of the person hold too.
    let required = plugin_signatures.require.iter().chain(&user.plugin_signatures.require);
    let required: Vec<_> = required.map(|key| format!("{} ({})", key.key, key.name)).collect();
    section.show("plugin_signatures", map([("require", is(&required))]));
    // A project cannot set it.
    section.show("plugin_index", is(plugin_index).noted_if(plugin_index.is_none(), "none"));
    section.show_list("toolboxes", default_toolboxes(config));
    let info = |list: &[AgentRuntimeInfo], at: usize| list.get(at).cloned().unwrap_or_default();
    let agents_known = agents.iter().enumerate().map(|(at, one)| (one, info(&known.agents, at)));
    section.show_list("agents", agents_known.map(|(one, known)| of_runner(agent_section(one, config, &known))));
    let teams_known = teams.iter().enumerate().map(|(at, one)| (one, info(&known.teams, at)));
    section.show_list("teams", teams_known.map(|(one, known)| of_runner(team_section(one, config, &known))));
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
            ("record", or(*record, true, "default")),
            ("max_bytes", or(positive(max_bytes), limits::SESSION_BYTES, "of one session; default")),
            ("max_total_bytes", or(positive(max_total_bytes), limits::SESSIONS_BYTES, "of all sessions; default")),
        ]),
    );
    match cluster {
        Some(cluster) => section.show_section("cluster", cluster_section(cluster, config)),
        None => section.show("cluster", is(&()).noted("sessions are files")),
    }
    // Numbers of agents and resources of plugin calls, below the fixed limits of the host.
    section.show("runs", runs.setting());
    section.show("limits", bounds.setting(known.guest_memory));
    let described = telemetry_section(&telemetry.clone().unwrap_or_default());
    section.show_section("telemetry", if user.has_telemetry { described.without_facts() } else { described });
    section.show_list("triggers", triggers.iter().map(trigger_section));
    // A project cannot set it.
    section.show("theme", or(*theme, ThemeChoice::default(), "default"));
    section.show("house", fixed_limits::house());
    disclose_user_entries(&mut section, config);
    section
}

/// Describes the toolboxes of the agent that runs if there are no agents.
fn default_toolboxes(config: &Config) -> Vec<SectionDescription> {
    let agent = config.default_agent();
    let describer = PluginDescriber::new(&agent, config);
    let mut known = std::iter::empty::<&PluginRuntimeInfo>();
    let mut describe = |toolbox| toolbox_section(&agent, toolbox, &[], &describer, &mut known, config);
    let sections = agent.toolboxes.iter().map(|toolbox| {
        let section = describe(toolbox);
        // Nobody has them beside `agents`.
        let is_fact = config.agents.is_empty() && !config.user.contains(ConfigEntryKind::Toolbox, toolbox.name());
        if is_fact { section } else { section.without_facts() }
    });
    sections.collect()
}
