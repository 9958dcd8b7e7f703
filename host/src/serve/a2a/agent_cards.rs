//! Agent cards: what the agents are for, and where they are reached.

use std::collections::BTreeMap;

use crate::{
    a2a::{
        BUDGET_EXTENSION, CARD_PATH, PROTOCOL_VERSION, agent_segment,
        wire::{
            A2aMetadata, AgentCapabilities, AgentCard, AgentCardSkill, AgentExtension, AgentInterface,
            CardSecurityRequirement, CardSecurityScheme, HttpAuthSecurityScheme, ProtocolBinding, RequiredScopes,
        },
    },
    app::DEFAULT_AGENT,
    config::RunnerConfig,
    serve::hosted_runs::RunHost,
};

/// The path below which each agent has its address.
pub const A2A_PATH: &str = "/a2a";

/// The name of the only way in which clients authenticate themselves.
const BEARER: &str = "bearer";

/// The media types of tasks. Others are refused.
const INPUTS: [&str; 7] =
    ["text/plain", "application/json", "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"];

/// The media types of answers.
const OUTPUTS: [&str; 2] = ["text/plain", "application/json"];

/// The agents of a host as their cards show them.
pub(super) struct AgentDirectory<'a> {
    host: &'a RunHost,
    /// The URL under which the client reaches this server, without a slash at its end.
    base: &'a str,
    requires_token: bool,
    sends_push: bool,
}

impl<'a> AgentDirectory<'a> {
    pub fn new(host: &'a RunHost, base: &'a str, requires_token: bool) -> Self {
        Self { host, base, requires_token, sends_push: false }
    }

    /// Returns these agents on a server that does or does not send push notifications.
    pub fn with_push(self, sends_push: bool) -> Self {
        Self { sends_push, ..self }
    }

    /// Returns the card of the server: that of the agent of requests that name none, with the skills of all agents.
    pub fn entry_card(&self) -> AgentCard {
        let entry = self.host.entry_agent();
        let skills = self.skills();
        let (own, others): (Vec<_>, Vec<_>) = skills.into_iter().partition(|skill| skill.id == entry);
        let at_home = |mut skill: AgentCardSkill| {
            let card = format!("{}{CARD_PATH}", self.address(&skill.id));
            skill.description = format!("{} This is another agent, whose card is at {card}", skill.description);
            skill
        };
        let all = own.into_iter().chain(others.into_iter().map(at_home)).collect();
        self.card(entry, all)
    }

    /// Returns the card of an agent.
    pub fn agent_card(&self, name: &str) -> AgentCard {
        let skills = self.skills().into_iter().filter(|skill| skill.id == name).collect();
        self.card(name, skills)
    }

    fn card(&self, name: &str, skills: Vec<AgentCardSkill>) -> AgentCard {
        let url = self.address(name);
        let interface = |binding: ProtocolBinding| AgentInterface {
            url: url.clone(),
            protocol_binding: binding.name().into(),
            tenant: String::new(),
            protocol_version: PROTOCOL_VERSION.into(),
        };
        let budget = AgentExtension {
            uri: BUDGET_EXTENSION.into(),
            description: "The metadata of a message may say under this key what its task may spend: \
                          {\"tokens\": 100000, \"usd\": 0.5, \"tool_calls\": 200, \"time\": \"10m\"}."
                .into(),
            required: false,
            params: A2aMetadata::new(),
        };
        let bearer = HttpAuthSecurityScheme {
            scheme: "Bearer".into(),
            description: "The token of the server, which its operator gives to clients.".into(),
        };
        let mut card = AgentCard {
            name: name.to_owned(),
            description: skills.first().map(|skill| skill.description.clone()).unwrap_or_default(),
            supported_interfaces: vec![interface(ProtocolBinding::JsonRpc), interface(ProtocolBinding::HttpJson)],
            version: env!("CARGO_PKG_VERSION").into(),
            capabilities: AgentCapabilities {
                streaming: true,
                push_notifications: self.sends_push,
                extended_agent_card: false,
                extensions: vec![budget],
            },
            security_schemes: BTreeMap::new(),
            security_requirements: Vec::new(),
            default_input_modes: INPUTS.map(str::to_owned).into(),
            default_output_modes: OUTPUTS.map(str::to_owned).into(),
            skills,
        };
        if self.requires_token {
            let scheme = CardSecurityScheme { http_auth_security_scheme: Some(bearer) };
            card.security_schemes.insert(BEARER.into(), scheme);
            let schemes = [(BEARER.to_owned(), RequiredScopes::default())].into_iter().collect();
            card.security_requirements.push(CardSecurityRequirement { schemes });
        }
        card
    }

    fn skills(&self) -> Vec<AgentCardSkill> {
        let skill = |runner: RunnerConfig<'_>| {
            let own = runner.own();
            let description = match own.description.trim() {
                "" => format!("Works on any task as the {} `{}`.", own.word(), own.name),
                description => description.to_owned(),
            };
            let (id, name, tags) = (own.name.clone(), own.name.clone(), vec![own.word().to_owned()]);
            AgentCardSkill { id, name, description, tags, examples: Vec::new() }
        };
        let config = &self.host.app().config;
        let skills: Vec<_> = config.runners().map(skill).collect();
        if skills.is_empty() { vec![skill(RunnerConfig::Agent(&config.default_agent()))] } else { skills }
    }

    /// Returns the URL of an agent.
    fn address(&self, agent: &str) -> String {
        format!("{}{A2A_PATH}/{}", self.base, agent_segment(agent))
    }
}

/// Returns `true` if there is an agent or team of this name.
pub(super) fn has_agent(host: &RunHost, name: &str) -> bool {
    let mut runners = host.app().config.runners().peekable();
    match runners.peek() {
        Some(_) => runners.any(|runner| runner.name() == name),
        None => name == DEFAULT_AGENT,
    }
}
