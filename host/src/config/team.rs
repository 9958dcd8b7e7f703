//! Teams: their members and coordinators.

use std::{collections::HashSet, fmt};

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, value::MapAccessDeserializer},
};
use serde_json::Value;

use super::{AgentConfig, DelegableConfig, GrantConfig, RunnerSection, StepUse, explain::unknown, values::or_text};
use crate::{
    agent::{CostTier, OnFailure},
    capability::Budget,
    error::{ErrorKind, Report},
    limits,
    team::{ModelCoordinatorOptions, OnRoundsEnd, StopCondition},
};

/// A team: agents and other teams that work together on one task.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(from = "TeamFile")]
pub struct TeamConfig {
    /// The settings that a team shares with agents: its name, the model of its coordinator, its middleware, its budget and
    /// ceilings, and its coordinator if that is a plugin.
    pub own: AgentConfig,
    /// Its members, in order.
    pub members: Vec<MemberUse>,
    /// The coordinator as it is written in the file.
    pub coordinator: StepUse,
    /// The conversations in which members work that have tools to hand over to each other, for a coordinator that is a
    /// plugin; `None`: they have no such tools.
    pub hand_over: Option<HandoffChats>,
}

/// A team in the file: agents and other teams that work together on one task.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TeamFile {
    /// The team's name.
    name: String,
    /// A description for other agents and for people.
    #[serde(default)]
    description: String,
    /// The instructions of its coordinator, if that asks a model.
    #[serde(default)]
    instructions: String,
    /// The name of the model that its coordinator asks; `None`: the first provider of the config.
    provider: Option<String>,
    /// The labels of the workers of the cluster that run it, whoever starts it; empty: any worker. `None`: it is run by the
    /// process that starts it.
    place: Option<Vec<String>>,
    /// The text shown before its name in a terminal.
    prefix: Option<String>,
    /// Its members, in order.
    members: Vec<MemberUse>,
    /// The coordinator, which decides whose turn it is; `None`: `sequence`.
    #[serde(default = "sequence")]
    coordinator: StepUse,
    /// The conversations in which members work that have tools to hand over to each other, for a coordinator that is a
    /// plugin; `None`: they have no such tools.
    hand_over: Option<HandoffChats>,
    /// Keywords for its abilities, for agents that choose a delegate.
    #[serde(default)]
    skills_tags: Vec<String>,
    /// The cost class of a task for it, for agents that choose a delegate.
    estimated_cost: Option<CostTier>,
    /// The budget of one of its runs, including its members.
    #[serde(default)]
    budget: Budget,
    /// Middleware around its runs, outermost first.
    #[serde(default)]
    middleware: Vec<StepUse>,
    /// Ceiling of all its plugins, whatever each is granted; `None`: no ceiling besides the grants.
    #[serde(rename = "use")]
    ceiling: Option<GrantConfig>,
    /// Ceiling of its members, and of those that they start.
    #[serde(default)]
    delegable: DelegableConfig,
}

fn sequence() -> StepUse {
    StepUse { kind: "sequence".into(), is_default: true, ..StepUse::default() }
}

impl From<TeamFile> for TeamConfig {
    fn from(file: TeamFile) -> Self {
        let plugin = match HostCoordinator::of(&file.coordinator) {
            None => Some(file.coordinator.clone()),
            Some(Ok(HostCoordinator::RoundRobin { until: TeamStopCondition::Coordinator(step), .. })) => Some(*step),
            // The mistake is reported when the whole config is checked.
            Some(_) => None,
        };
        let own = AgentConfig {
            list: RunnerSection::Teams,
            name: file.name,
            description: file.description,
            instructions: file.instructions,
            provider: file.provider,
            worker_labels: file.place,
            prefix: file.prefix,
            skills_tags: file.skills_tags,
            estimated_cost: file.estimated_cost,
            budget: file.budget,
            // A team has no conversation of its own that could be shortened.
            effects: Some(Vec::new()),
            middleware: file.middleware,
            coordinator: plugin,
            ceiling: file.ceiling,
            delegable: file.delegable,
            ..AgentConfig::default()
        };
        Self { own, members: file.members, coordinator: file.coordinator, hand_over: file.hand_over }
    }
}

/// A member of a team: the name of an agent or another team, or a mapping with options.
// The derived `deserialize` reads the mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(inline, transform = or_text)]
pub struct MemberUse {
    /// The name of the agent or team in the config.
    pub agent: String,
    /// The name by which the other members know it; `None`: `agent`.
    pub name: Option<String>,
    /// Its role in the team; `None`: its name.
    pub role: Option<String>,
    /// Its description within the team; `None`: the one of the config.
    pub description: Option<String>,
    /// Attempts after the first failed one of a step.
    #[serde(default)]
    #[schemars(range(max = limits::MEMBER_RETRIES))]
    pub retries: u32,
    /// The effect on the team's run if the last attempt failed.
    #[serde(default)]
    pub on_failure: OnFailure,
}

impl MemberUse {
    /// Returns the name by which the other members know it.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.agent)
    }
}

impl<'de> Deserialize<'de> for MemberUse {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MemberVisitor;
        impl<'de> de::Visitor<'de> for MemberVisitor {
            type Value = MemberUse;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an agent or team, or a mapping with `agent`")
            }
            fn visit_str<E: de::Error>(self, agent: &str) -> Result<MemberUse, E> {
                Ok(MemberUse { agent: agent.into(), ..MemberUse::default() })
            }
            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<MemberUse, M::Error> {
                MemberUse::deserialize(MapAccessDeserializer::new(map))
            }
        }
        from.deserialize_any(MemberVisitor)
    }
}

/// A coordinator of the host, with its params.
#[derive(Debug, Clone)]
pub enum HostCoordinator {
    /// `sequence`: each member once, in order.
    Sequence,
    /// `loop`: each member in turn, round after round.
    Loop(LoopParams),
    /// `round-robin`: each member in turn, until a condition is met.
    RoundRobin {
        /// Rounds of one run; 0: as many as the step limit allows.
        max_rounds: u32,
        /// The condition that ends the run.
        until: TeamStopCondition,
    },
    /// `roles`: one role after the other, all members of a role at once.
    Roles(RolesParams),
    /// `model`: a model decides.
    Model(ModelCoordinatorOptions),
    /// `hand-off`: the active member works until it answers or hands over.
    Handoff(HandoffParams),
}

/// The condition that ends a `round-robin` run.
#[derive(Debug, Clone)]
pub enum TeamStopCondition {
    /// This regular expression matches the text of the newest message.
    Text(String),
    /// This plugin says that the team is done.
    Coordinator(Box<StepUse>),
}

/// The params of `loop`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopParams {
    /// Rounds of one run; at least 1.
    pub max_rounds: u32,
    /// The outcome when the rounds are used up.
    #[serde(default = "done")]
    pub at_end: OnRoundsEnd,
}

/// The params of `roles`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RolesParams {
    /// The roles in order.
    pub roles: Vec<String>,
    /// Passes over all roles; at least 1.
    #[serde(default = "once")]
    pub max_cycles: u32,
    /// The outcome when the cycles are used up.
    #[serde(default = "done")]
    pub at_end: OnRoundsEnd,
}

/// The params of `hand-off`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HandoffParams {
    /// Handoffs between members in one run; 0: [`limits::HANDOFFS`].
    pub max_hand_offs: u32,
    /// The conversations in which the members work.
    pub chats: HandoffChats,
}

/// The conversations in which members work that hand over to each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HandoffChats {
    /// All members share one conversation.
    #[default]
    Shared,
    /// Each member has its own, and is given the messages that are new to it.
    Private,
}

fn done() -> OnRoundsEnd {
    OnRoundsEnd::Done
}

fn once() -> u32 {
    1
}

impl HostCoordinator {
    /// The kinds of the host's own coordinators.
    pub const KINDS: [&str; 6] = ["sequence", "loop", "round-robin", "roles", "model", "hand-off"];

    /// Returns the coordinator of the host with this kind; `None` if the step is a plugin.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong and what would be right.
    pub fn of(step: &StepUse) -> Option<Result<Self, String>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct NoCoordinatorParams {}
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct RoundRobinParams {
            #[serde(default)]
            max_rounds: u32,
            until: Value,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, default)]
        struct ModelCoordinatorParams {
            max_rounds: u32,
            window: u32,
            instructions: String,
            summary: bool,
            tools: bool,
        }
        impl Default for ModelCoordinatorParams {
            fn default() -> Self {
                let ModelCoordinatorOptions { model: _, max_rounds, window, instructions, summary, tools } =
                    ModelCoordinatorOptions::default();
                Self { max_rounds, window, instructions, summary, tools }
            }
        }
        let own = match step.kind.as_str() {
            "sequence" => step.params("").map(|NoCoordinatorParams {}| Self::Sequence),
            "loop" => step.params("max_rounds: 3").and_then(|params: LoopParams| match params.max_rounds {
                0 => Err("`max_rounds` must be at least 1, because nothing else ends the loop".into()),
                _ => Ok(Self::Loop(params)),
            }),
            "round-robin" => step.params(r#"max_rounds: 5, until: "(?i)approved""#).and_then(
                |RoundRobinParams { max_rounds, until }| Ok(Self::RoundRobin { max_rounds, until: until_of(until)? }),
            ),
            "roles" => {
                step.params("roles: [research, write]").and_then(|params: RolesParams| match params.max_cycles {
                    0 => Err("`max_cycles` must be at least 1, because nothing else ends the team's run".into()),
                    _ if params.roles.is_empty() => Err("`roles` is empty; name the roles of the members".into()),
                    _ => Ok(Self::Roles(params)),
                })
            }
            "model" => step.params("max_rounds: 5").map(
                |ModelCoordinatorParams { max_rounds, window, instructions, summary, tools }| {
                    Self::Model(ModelCoordinatorOptions {
                        model: None,
                        max_rounds,
                        window,
                        instructions,
                        summary,
                        tools,
                    })
                },
            ),
            "hand-off" => step.params("max_hand_offs: 3").map(Self::Handoff),
            _ => return None,
        };
        Some(own.and_then(|own| step.plainly(own)))
    }

    /// Returns `true` if it asks the team's model.
    pub fn asks(&self) -> bool {
        matches!(self, Self::Model(_))
    }
}

fn until_of(until: Value) -> Result<TeamStopCondition, String> {
    if let Value::String(pattern) = until {
        StopCondition::text(&pattern).map_err(|fault| fault.to_string())?;
        return Ok(TeamStopCondition::Text(pattern));
    }
    let step: StepUse = serde_json::from_value(until)
        .map_err(|error| format!("`until` is neither a regular expression nor a plugin: {error}"))?;
    match HostCoordinator::of(&step) {
        None => Ok(TeamStopCondition::Coordinator(Box::new(step))),
        Some(_) => Err(format!("`until` names `{}`; write a regular expression, or a plugin by its `kind`", step.kind)),
    }
}

impl TeamConfig {
    /// Returns the team's coordinator if it is one of the host; `None` if it is a plugin.
    pub fn own_coordinator(&self) -> Option<HostCoordinator> {
        // A mistake in it was reported when the config was read.
        HostCoordinator::of(&self.coordinator).and_then(Result::ok)
    }

    /// Returns `true` if its coordinator may ask the team's model.
    pub fn asks(&self) -> bool {
        self.own_coordinator().is_none_or(|own| own.asks()) || self.own.coordinator.is_some()
    }

    /// Checks what can be checked without the rest of the config.
    pub(super) fn check(&self) -> Result<(), Report> {
        let place = self.own.place();
        let wrong = |what: String| Report::new(ErrorKind::Usage, format!("{place}.{what}"));
        if let Some(Err(why)) = HostCoordinator::of(&self.coordinator) {
            return Err(wrong(format!("coordinator.{}: {why}", self.coordinator.kind)));
        }
        if self.hand_over.is_some() && self.own_coordinator().is_some() {
            let kind = &self.coordinator.kind;
            return Err(wrong(format!(
                "hand_over: valid only if the coordinator is a plugin, but `{kind}` is a coordinator of the host"
            ))
            .hint("remove `hand_over`, or write `coordinator: {kind: hand-off, params: {chats: private}}`"));
        }
        if self.members.is_empty() {
            return Err(wrong("members: is empty".into()).hint("name agents or teams: `members: [writer]`"));
        }
        if self.members.len() > limits::TEAM_MEMBERS {
            return Err(wrong(format!("members: must have at most {} entries", limits::TEAM_MEMBERS)));
        }
        let mut names = HashSet::new();
        for member in &self.members {
            let name = member.name();
            if name.trim().is_empty() {
                return Err(wrong("members: an entry has an empty name".into()));
            }
            if !names.insert(name) {
                return Err(wrong(format!("members: two entries have the name `{}`", name.escape_debug()))
                    .hint(format!("rename one of them: `{{agent: {}, name: …}}`", member.agent.escape_debug())));
            }
            if member.retries > limits::MEMBER_RETRIES {
                let most = limits::MEMBER_RETRIES;
                return Err(wrong(format!("members.{}.retries: must be at most {most}", name.escape_debug())));
            }
        }
        if let Some(HostCoordinator::Roles(RolesParams { roles, .. })) = self.own_coordinator() {
            let has =
                |role: &str| self.members.iter().any(|member| member.role.as_deref().unwrap_or(member.name()) == role);
            if let Some(role) = roles.iter().find(|role| !has(role)) {
                let known = self.members.iter().map(|member| member.role.as_deref().unwrap_or(member.name()));
                return Err(unknown("role", role, known).cause(format!("named by {place}.coordinator.roles")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parse(teams: &str) -> Result<Config, Report> {
        let text = format!("agents: [{{name: a}}, {{name: b}}]\nteams: {teams}");
        Config::parse(&text, "/project".into())
    }

    fn of(coordinator: &str) -> HostCoordinator {
        let config = parse(&format!("[{{name: t, members: [a, {{agent: b, role: x}}], coordinator: {coordinator}}}]"));
        config.unwrap().teams[0].own_coordinator().unwrap()
    }

    #[test]
    fn members_and_coordinators_are_read() {
        let text = "[{name: t, members: [a, {agent: a, name: second, role: r, description: d, retries: 8, on_failure: skip}]}]";
        let config = parse(text).unwrap();
        let team = &config.teams[0];
        let second = MemberUse {
            agent: "a".into(),
            name: Some("second".into()),
            role: Some("r".into()),
            description: Some("d".into()),
            retries: 8,
            on_failure: OnFailure::Skip,
        };
        assert_eq!((team.own.instructions.as_str(), team.hand_over), ("", None));
        assert_eq!(team.members, [MemberUse { agent: "a".into(), ..MemberUse::default() }, second]);
        assert!(matches!(team.own_coordinator(), Some(HostCoordinator::Sequence)) && !team.asks());
        let HostCoordinator::Loop(LoopParams { max_rounds: 2, at_end: OnRoundsEnd::Fail }) =
            of("{kind: loop, params: {max_rounds: 2, at_end: fail}}")
        else {
            panic!()
        };
        let HostCoordinator::Roles(RolesParams { roles, max_cycles: 1, at_end: OnRoundsEnd::Done }) =
            of("{kind: roles, params: {roles: [a, x, a]}}")
        else {
            panic!()
        };
        assert_eq!(roles, ["a", "x", "a"]);
        let HostCoordinator::Handoff(params) = of("hand_off") else { panic!() };
        assert_eq!((params.max_hand_offs, params.chats), (0, HandoffChats::Shared));
        let HostCoordinator::Model(options) = of("{kind: model, params: {tools: true, window: 7}}") else { panic!() };
        assert_eq!(options, ModelCoordinatorOptions { tools: true, window: 7, ..ModelCoordinatorOptions::default() });
        let HostCoordinator::RoundRobin { max_rounds: 0, until: TeamStopCondition::Text(until) } =
            of("{kind: round-robin, params: {until: 'a|b'}}")
        else {
            panic!()
        };
        assert_eq!(until, "a|b");
    }

    #[test]
    fn coordinator_plugin_is_among_plugins_of_its_team() {
        for coordinator in
            ["{kind: my_plan, params: {k: 1}}", "{kind: round-robin, params: {until: {kind: my_plan, params: {k: 1}}}}"]
        {
            let config = parse(&format!("[{{name: t, members: [a], coordinator: {coordinator}}}]")).unwrap();
            let plugins: Vec<_> = config.teams[0].own.all_plugins().collect();
            let [(super::super::PluginSection::Coordinator, "my-plan", uses)] = plugins[..] else {
                panic!("{plugins:?}")
            };
            assert_eq!(uses.params["k"], 1);
            assert!(config.teams[0].asks());
        }
        let text = "[{name: t, members: [a], instructions: Be kind., coordinator: my-plan, hand_over: private}]";
        let team = parse(text).unwrap().teams.remove(0);
        assert_eq!((team.own.instructions.as_str(), team.hand_over), ("Be kind.", Some(HandoffChats::Private)));
    }

    #[test]
    fn invalid_team_is_refused_with_position() {
        let members = |coordinator: &str| format!("[{{name: t, members: [a, b], coordinator: {coordinator}}}]");
        let many = format!(
            "[{{name: t, members: [{}]}}]",
            (0..=limits::TEAM_MEMBERS).map(|n| format!("{{agent: a, name: n{n}}}")).collect::<Vec<_>>().join(", ")
        );
        let twenty = |of: &str| (0..25).map(|n| format!("{{agent: {of}, name: n{n}}}")).collect::<Vec<_>>().join(", ");
        let wide = format!(
            "[{{name: t, members: [{}]}}, {{name: u, members: [{}]}}, {{name: v, members: [{}]}}]",
            twenty("u"),
            twenty("v"),
            twenty("a")
        );
        for (teams, message) in [
            ("[{name: t}]".to_owned(), "the key `members` is missing"),
            ("[{name: t, members: []}]".into(), "teams.t.members: is empty"),
            ("[{name: t, members: [c]}]".into(), "there is no agent `c`"),
            ("[{name: a, members: [b]}]".into(), "agents and teams: two entries have the name `a`"),
            ("[{name: t, members: [a, a]}]".into(), "teams.t.members: two entries have the name `a`"),
            ("[{name: t, members: [{agent: a, name: ''}]}]".into(), "teams.t.members: an entry has an empty name"),
            ("[{name: t, members: [{agent: a, retries: 9}]}]".into(), "teams.t.members.a.retries: must be at most 8"),
            ("[{name: t, members: [{agent: a, weight: 9}]}]".into(), "there is no key `weight`"),
            ("[{name: t, members: [t]}]".into(), "agents and teams depend on each other in a cycle: t → t"),
            ("[{name: t, members: [a], toolboxes: [x]}]".into(), "there is no key `toolboxes`"),
            (
                "[{name: t, members: [a], hand_over: shared}]".into(),
                "teams.t.hand_over: valid only if the coordinator is a plugin, but `sequence` is a coordinator of the host",
            ),
            ("[{name: t, members: [a], coordinator: my-plan, hand_over: both}]".into(), "`hand_over` cannot be `both`"),
            ("[{name: t, members: [a], provider: x}]".into(), "there is no model `x`"),
            (members("{kind: sequence, params: {x: 1}}"), "teams.t.coordinator.sequence: has no params"),
            (
                members("{kind: sequence, powers: [stop]}"),
                "teams.t.coordinator.sequence: a step of the host has only the keys `kind` and `params`; remove the others",
            ),
            (members("loop"), "teams.t.coordinator.loop: missing field `max_rounds`; write `params: {max_rounds: 3}`"),
            (
                members("{kind: loop, params: {max_rounds: 0}}"),
                "teams.t.coordinator.loop: `max_rounds` must be at least 1, because nothing else ends the loop",
            ),
            (
                members("round-robin"),
                "teams.t.coordinator.round-robin: missing field `until`; write `params: {max_rounds: 5, until: \"(?i)approved\"}`",
            ),
            (members("{kind: round-robin, params: {until: '('}}"), "invalid regular expression `(`"),
            (
                members("{kind: round-robin, params: {until: {kind: loop}}}"),
                "`until` names `loop`; write a regular expression, or a plugin by its `kind`",
            ),
            (
                members("{kind: round-robin, params: {until: 7}}"),
                "`until` is neither a regular expression nor a plugin",
            ),
            (members("{kind: roles, params: {roles: []}}"), "`roles` is empty"),
            (members("{kind: roles, params: {roles: [a], max_cycles: 0}}"), "`max_cycles` must be at least 1"),
            (members("{kind: roles, params: {roles: [a, write]}}"), "there is no role `write`"),
            (members("{kind: hand-off, params: {chats: both}}"), "unknown variant `both`"),
            (many, "teams.t.members: must have at most 1024 entries"),
            (wide, "teams.t.members: the team and the teams in it have more than 1024 members"),
        ] {
            let report = parse(&teams).err().unwrap_or_else(|| panic!("{teams}")).to_string();
            assert!(report.contains(message), "{teams}\n{report}");
        }
    }
}
