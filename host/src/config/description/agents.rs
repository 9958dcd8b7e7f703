//! Agents.

use super::{
    AgentRuntimeInfo, StepOrder,
    agent_tools::agent_tool_setting,
    apis::api_use_section,
    grants::ceiling_setting,
    plugins::PluginDescriber,
    remote_agents::{disclose_remote, remote_setting},
    section::SectionDescription,
    shared_settings::budget_setting,
    toolboxes::toolbox_section,
};
use crate::{
    agent::DEFAULT_PREFIX,
    config::{
        AgentConfig, AgentOptions, CONTEXT_THRESHOLD, Config, DelegableConfig, PluginSection,
        effective_setting::{EffectiveSetting, is, list, map, or, positive, set, shown},
    },
    limits,
};

/// Describes the key `place` of an agent or a team.
pub(super) fn place_setting(labels: Option<&[String]>) -> EffectiveSetting {
    match labels {
        None => is(&()).noted("none: it is run where it is started"),
        Some([]) => is::<[String]>(&[]).noted("any worker of the cluster"),
        Some(labels) => is(labels),
    }
}

pub(super) fn agent_section(agent: &AgentConfig, config: &Config, known: &AgentRuntimeInfo) -> SectionDescription {
    let AgentConfig {
        name,
        description,
        instructions,
        provider,
        remote,
        worker_labels,
        prefix,
        toolboxes,
        openapi,
        skills: _,
        skills_tags,
        estimated_cost,
        max_concurrency,
        budget,
        plugins: _,
        agent_tools,
        effects,
        middleware,
        ceiling,
        delegable,
        options,
        // Only teams have these.
        coordinator: _,
        list: _,
        // A fact of the package, not of each of its agents.
        package: _,
    } = agent;
    let describer = PluginDescriber::new(agent, config);
    // In the order of `AgentConfig::all_plugins`.
    let mut infos = known.plugins.iter();
    let mut step = |listed, step| describer.step(listed, step, &mut infos);
    let effects: Option<Vec<_>> =
        effects.as_ref().map(|steps| steps.iter().map(|one| step(PluginSection::Effects, one)).collect());
    let middleware: Vec<_> = middleware.iter().map(|one| step(PluginSection::Middleware, one)).collect();
    let plugins = agent.all_plugins().filter(|(listed, ..)| *listed == PluginSection::Plugins);
    let plugins: Vec<_> = plugins
        .map(|(listed, id, uses)| {
            let known = infos.next().cloned().unwrap_or_default();
            (id.to_owned(), describer.plugin(listed, id, uses, &known))
        })
        .collect();
    let tools = known.toolboxes.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
    let toolboxes: Vec<_> = toolboxes
        .iter()
        .zip(tools)
        .map(|(toolbox, tools)| toolbox_section(agent, toolbox, tools, &describer, &mut infos, config))
        .collect();

    let mut section = SectionDescription::default();
    // Texts for models and people, and one of the models that are disclosed.
    section.show_all([
        ("name", is(name)),
        ("description", set(description)),
        ("instructions", set(instructions)),
        (
            "provider",
            match remote {
                Some(_) => is(&()).noted("none: the agent is one of another host"),
                None => model_setting(provider.as_deref(), config),
            },
        ),
        ("prefix", prefix_setting(prefix.as_deref())),
    ]);
    section.show("remote", remote_setting(remote.as_ref()));
    if let Some(remote) = remote {
        disclose_remote(&mut section, name, remote);
    }
    section.show("place", place_setting(worker_labels.as_deref()));
    section.show_list("toolboxes", toolboxes);
    section.show_list("openapi", openapi.iter().map(|uses| api_use_section(name, uses, config)));
    section.show_all([
        ("skills", is(&known.skills)),
        ("skills_tags", is(skills_tags)),
        ("estimated_cost", is(estimated_cost).noted_if(estimated_cost.is_none(), "not set")),
        // Amounts, below the fixed limits of the host.
        ("max_concurrency", positive(*max_concurrency, config.runs.limits().working_agents as u32)),
        ("budget", budget_setting(budget)),
        // Each of these agents is disclosed by itself.
        ("agent_tools", list(agent_tools.iter().map(|uses| agent_tool_setting(uses, config)))),
    ]);
    match effects {
        Some(effects) => section.show_list("effects", effects),
        None => section.show(
            "effects",
            is(&()).noted("none: the model's context window is unknown, or the shipped plugins are not installed"),
        ),
    }
    section.show_list("middleware", middleware);
    section.show_named("plugins", plugins);
    // Ceilings narrow what is disclosed, and grant nothing.
    section.show_all([
        ("use", ceiling_setting(ceiling.as_ref(), "none besides the grants of each plugin", config)),
        ("delegable", delegable_setting(delegable, "what the agent and the agents that it may start use", config)),
        // Amounts and times, below the fixed limits of the host.
        ("options", options_setting(options)),
        ("order", order_setting(&known.order)),
    ]);
    let may_start = |other: &AgentConfig| delegable.agents.as_ref().is_none_or(|agents| agents.contains(&other.name));
    let others = config.everyone().filter(|other| options.max_delegation_depth > 0 && other.name != *name);
    let others: Vec<_> = others.filter(|other| may_start(other)).map(|other| &other.name).collect();
    section.show("delegates_to", is(&others));
    let handoffs = Some(options.max_handoffs).filter(|most| *most > 0);
    section.show("hand_overs", or(handoffs, limits::HANDOFFS, "of a delegated task"));
    section
}

pub(super) fn model_setting(provider: Option<&str>, config: &Config) -> EffectiveSetting {
    match (provider, config.provider(None)) {
        (Some(name), _) => is(name),
        (None, Ok(Some(default))) => {
            let note = if config.default_provider.is_some() { "the default provider" } else { "the first provider" };
            is(&default.name).noted(note)
        }
        (None, _) => is(&()).noted("discovered from a key in the environment, or a local server"),
    }
}

pub(super) fn prefix_setting(prefix: Option<&str>) -> EffectiveSetting {
    or(prefix.filter(|prefix| !prefix.is_empty()), DEFAULT_PREFIX, "default")
}

pub(super) fn delegable_setting(
    delegable: &DelegableConfig,
    without: &'static str,
    config: &Config,
) -> EffectiveSetting {
    let DelegableConfig { grant, agents, budget } = delegable;
    map([
        ("grant", ceiling_setting(grant.as_ref(), without, config)),
        ("agents", is(agents).noted_if(agents.is_none(), "all")),
        ("budget", budget_setting(budget)),
    ])
}

fn options_setting(options: &AgentOptions) -> EffectiveSetting {
    let AgentOptions {
        max_iterations,
        warn_iterations,
        max_delegation_depth,
        max_handoffs,
        context_threshold,
        interaction_mode,
        question_timeout,
        disable_behavioral_hints,
    } = options;
    let turns = is(&options.iterations());
    map([
        (
            "max_iterations",
            match max_iterations {
                None => turns.noted("default"),
                Some(0) => turns.noted("0: the maximum"),
                Some(_) => turns,
            },
        ),
        ("warn_iterations", is(warn_iterations).noted_if(*warn_iterations == 0, "never")),
        ("max_delegation_depth", is(max_delegation_depth).noted_if(*max_delegation_depth == 0, "no delegation")),
        ("max_handoffs", is(max_handoffs).noted_if(*max_handoffs == 0, "no hand-over of its own task")),
        (
            "context_threshold",
            or(
                context_threshold.filter(|share| *share > 0.0),
                CONTEXT_THRESHOLD,
                "default; applies if no effects are named",
            ),
        ),
        ("interaction_mode", set(interaction_mode)),
        (
            "question_timeout",
            or(question_timeout.map(shown), shown(limits::DELEGATION_TIME), "the time limit of a delegation"),
        ),
        ("disable_behavioral_hints", set(disable_behavioral_hints)),
    ])
}

fn order_setting(StepOrder { effects, runs, requests, calls }: &StepOrder) -> EffectiveSetting {
    map([("effects", is(effects)), ("runs", is(runs)), ("requests", is(requests)), ("calls", is(calls))])
}
