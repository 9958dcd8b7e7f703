//! Teams. Members are disclosed as agents, and their order reaches nothing.

use super::{
    AgentRuntimeInfo,
    agents::{delegable_setting, model_setting, place_setting, prefix_setting},
    grants::ceiling_setting,
    plugins::PluginDescriber,
    section::SectionDescription,
    shared_settings::budget_setting,
};
use crate::{
    config::{
        AgentConfig, Config, HandoffParams, HostCoordinator, LoopParams, MemberUse, PluginSection, RolesParams,
        TeamConfig, TeamStopCondition,
        effective_setting::{EffectiveSetting, is, list, map, or, set},
    },
    limits,
    team::ModelCoordinatorOptions,
};

pub(super) fn team_section(team: &TeamConfig, config: &Config, known: &AgentRuntimeInfo) -> SectionDescription {
    // Of the keys that agents have too, those of its file: the schema of a team names them, and a test compares.
    let TeamConfig { own, members, coordinator: _, hand_over } = team;
    // A new key of agents must be decided on here: `_` are those that the file of a team cannot have.
    let AgentConfig {
        name,
        description,
        instructions,
        provider,
        remote: _,
        worker_labels,
        prefix,
        toolboxes: _,
        skills: _,
        skills_tags,
        estimated_cost,
        max_concurrency: _,
        budget,
        plugins: _,
        agent_tools: _,
        openapi: _,
        effects: _,
        middleware,
        ceiling,
        delegable,
        options: _,
        coordinator: coordinator_plugin,
        list: _,
        // A fact of the package, not of each of its agents.
        package: _,
    } = own;
    let describer = PluginDescriber::new(own, config);
    // In the order of `AgentConfig::all_plugins`.
    let mut infos = known.plugins.iter();
    let middleware: Vec<_> =
        middleware.iter().map(|step| describer.step(PluginSection::Middleware, step, &mut infos)).collect();
    let plugin = coordinator_plugin.as_ref().map(|step| describer.step(PluginSection::Coordinator, step, &mut infos));

    let mut section = SectionDescription::default();
    let provider = model_setting(provider.as_deref(), config);
    section.show_all([
        ("name", is(name)),
        ("description", set(description)),
        ("instructions", set(instructions)),
        ("provider", provider.noted_if(!team.asks(), "its coordinator uses no model")),
        ("place", place_setting(worker_labels.as_deref())),
        ("prefix", prefix_setting(prefix.as_deref())),
        ("members", list(members.iter().map(|one| member_setting(one, config)))),
    ]);
    let plugin = plugin.map(|plugin| section.take(plugin));
    section.show("coordinator", coordinator_setting(team, plugin));
    // A coordinator of the host shows this itself. Members hand over only to other members.
    if team.own_coordinator().is_none() {
        section.show("hand_over", is(hand_over).noted_if(hand_over.is_none(), "members have no tools to hand over"));
    }
    section.show_all([
        ("skills_tags", is(skills_tags)),
        ("estimated_cost", is(estimated_cost).noted_if(estimated_cost.is_none(), "not set")),
        ("budget", budget_setting(budget)),
    ]);
    section.show_list("middleware", middleware);
    section.show_all([
        ("use", ceiling_setting(ceiling.as_ref(), "none besides the grants of each plugin", config)),
        ("delegable", delegable_setting(delegable, "what its members use", config)),
        ("order", is(&known.order.runs).noted("around its runs")),
    ]);
    section
}

fn member_setting(member: &MemberUse, config: &Config) -> EffectiveSetting {
    let MemberUse { agent, name: own_name, role, description, retries, on_failure } = member;
    let of_config = config.who(agent).map(|who| who.own().description.clone()).unwrap_or_default();
    map([
        ("agent", is(agent)),
        ("name", is(member.name()).noted_if(own_name.is_none(), "the name in the config")),
        ("role", or(role.as_deref(), member.name(), "the name of the member")),
        ("description", or(description.as_ref(), &of_config, "the description in the config")),
        ("retries", set(retries)),
        ("on_failure", set(on_failure)),
    ])
}

/// Shows the coordinator; `plugin` are the values of its plugin, if it has one.
fn coordinator_setting(team: &TeamConfig, plugin: Option<EffectiveSetting>) -> EffectiveSetting {
    let shown_plugin = || plugin.clone().unwrap_or_else(|| is(&()));
    let Some(own) = team.own_coordinator() else { return shown_plugin() };
    let rounds = |most: u32, key| {
        (key, or(Some(most).filter(|most| *most > 0), limits::TEAM_STEPS, "0: limited only by the number of steps"))
    };
    let params = match own {
        HostCoordinator::Sequence => vec![],
        HostCoordinator::Loop(LoopParams { max_rounds, at_end }) => {
            vec![("max_rounds", is(&max_rounds)), ("at_end", is(&at_end))]
        }
        HostCoordinator::RoundRobin { max_rounds, until } => {
            let until = match until {
                TeamStopCondition::Text(pattern) => is(&pattern),
                TeamStopCondition::Coordinator(_) => shown_plugin(),
            };
            vec![rounds(max_rounds, "max_rounds"), ("until", until)]
        }
        HostCoordinator::Roles(RolesParams { roles, max_cycles, at_end }) => {
            vec![("roles", is(&roles)), ("max_cycles", is(&max_cycles)), ("at_end", is(&at_end))]
        }
        HostCoordinator::Model(ModelCoordinatorOptions {
            model: _,
            max_rounds,
            window,
            instructions,
            summary,
            tools,
        }) => vec![
            rounds(max_rounds, "max_rounds"),
            ("window", or(Some(window).filter(|window| *window > 0), limits::COORDINATOR_WINDOW, "messages; default")),
            ("instructions", set(&instructions)),
            ("summary", set(&summary)),
            ("tools", set(&tools)),
        ],
        HostCoordinator::Handoff(HandoffParams { max_hand_offs, chats }) => vec![
            ("max_hand_offs", or(Some(max_hand_offs).filter(|most| *most > 0), limits::HANDOFFS, "default")),
            ("chats", set(&chats)),
        ],
    };
    map([
        ("kind", is(&team.coordinator.kind).noted_if(team.coordinator.is_default, "default")),
        ("params", map(params)),
    ])
}
