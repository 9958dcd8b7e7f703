//! The effective settings of teams.

use super::{
    AgentRuntimeInfo, PluginRuntimeInfo, budget_setting, delegable_setting, grant_setting, model_setting, one_step,
    plugin_keys, prefix_setting, step_setting,
};
use crate::{
    config::{
        AgentConfig, Config, HandOffParams, HostCoordinator, LoopParams, MemberUse, RolesParams, TeamConfig,
        TeamStopCondition,
        effective_setting::{EffectiveSetting, is, list, map, or, set},
    },
    limits,
    team::ModelCoordinatorOptions,
};

pub(super) fn team(team: &TeamConfig, config: &Config, known: &AgentRuntimeInfo) -> EffectiveSetting {
    let TeamConfig { own, members, coordinator: _, hand_over } = team;
    let AgentConfig {
        name,
        description,
        instructions,
        provider,
        prefix,
        skills_tags,
        estimated_cost,
        budget,
        middleware,
        ceiling,
        delegable,
        // A team has none of these. A `max_concurrency` would have no effect: a team waits while its members work.
        max_concurrency: _,
        toolboxes: _,
        skills: _,
        plugins: _,
        agent_tools: _,
        effects: _,
        options: _,
        // `coordinator` is shown below.
        coordinator: _,
        list: _,
    } = own;
    let mut plugins = known.plugins.iter();
    let middleware = list(middleware.iter().map(|step| one_step(step, &mut plugins, config)));
    // A coordinator of the host shows this itself.
    let hands_over = team.own_coordinator().is_none();
    let hand_over = ("hand_over", is(hand_over).noted_if(hand_over.is_none(), "members do not"));
    let first = [
        ("name", is(name)),
        ("description", set(description)),
        ("instructions", set(instructions)),
        ("provider", model_setting(provider.as_deref(), config).noted_if(!team.asks(), "its coordinator asks none")),
        ("prefix", prefix_setting(prefix.as_deref())),
        ("members", list(members.iter().map(|one| member(one, config)))),
        ("coordinator", coordinator(team, plugins.next(), config)),
    ];
    let last = [
        ("skills_tags", is(skills_tags)),
        ("estimated_cost", is(estimated_cost).noted_if(estimated_cost.is_none(), "not told")),
        ("budget", budget_setting(budget)),
        ("middleware", middleware),
        ("use", grant_setting(ceiling.as_ref(), "what each plugin is granted", config)),
        ("delegable", delegable_setting(delegable, "what its members use", config)),
        ("order", is(&known.order.runs).noted("around its runs")),
    ];
    map(first.into_iter().chain(Some(hand_over).filter(|_| hands_over)).chain(last))
}

fn member(member: &MemberUse, config: &Config) -> EffectiveSetting {
    let MemberUse { agent, name: own_name, role, description, retries, on_failure } = member;
    let of_config = config.who(agent).map(|who| who.own().description.clone()).unwrap_or_default();
    map([
        ("agent", is(agent)),
        ("name", is(member.name()).noted_if(own_name.is_none(), "as it is called here")),
        ("role", or(role.as_deref(), member.name(), "its name")),
        ("description", or(description.as_ref(), &of_config, "as the config describes it")),
        ("retries", set(retries)),
        ("on_failure", set(on_failure)),
    ])
}

fn coordinator(team: &TeamConfig, known: Option<&PluginRuntimeInfo>, config: &Config) -> EffectiveSetting {
    let known = known.cloned().unwrap_or_default();
    let plugin = team.own.coordinator.as_ref();
    let shown_plugin = || plugin.map(|step| step_setting(step, plugin_keys(&step.uses, &known, config)));
    let Some(own) = team.own_coordinator() else { return shown_plugin().unwrap_or_else(|| is(&())) };
    let rounds =
        |most: u32, key| (key, or(Some(most).filter(|most| *most > 0), limits::TEAM_STEPS, "0: as many as steps"));
    let params = match own {
        HostCoordinator::Sequence => vec![],
        HostCoordinator::Loop(LoopParams { max_rounds, at_end }) => {
            vec![("max_rounds", is(&max_rounds)), ("at_end", is(&at_end))]
        }
        HostCoordinator::RoundRobin { max_rounds, until } => {
            let until = match until {
                TeamStopCondition::Text(pattern) => is(&pattern),
                TeamStopCondition::Coordinator(_) => shown_plugin().unwrap_or_else(|| is(&())),
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
        HostCoordinator::HandOff(HandOffParams { max_hand_offs, chats }) => vec![
            ("max_hand_offs", or(Some(max_hand_offs).filter(|most| *most > 0), limits::HAND_OVERS, "default")),
            ("chats", set(&chats)),
        ],
    };
    map([
        ("kind", is(&team.coordinator.kind).noted_if(team.coordinator.is_default, "default")),
        ("params", map(params)),
    ])
}
