use std::sync::Arc;

use crate::{
    app::{App, PreparedRun, Recording},
    capability::CapabilityDecision,
    chat::{Chat, Role},
    cli::{
        live::amount_in_words,
        render::{DIM, PLAIN, name, one_line},
    },
    config::{AgentConfig, PluginSection, PluginUse},
    error::Report,
    limits,
    model::{CompletionRequest, ContextWindow},
};

/// The facts about an agent or team that is ready to run.
#[derive(Clone)]
pub struct RunnerFacts {
    pub agent: Arc<str>,
    pub model: String,
    pub window: ContextWindow,
    /// The choices that the host made without being told to.
    pub notes: Vec<String>,
    /// Problems that do not keep it from running.
    pub warnings: Vec<String>,
    /// The names of its tools, each with the first line of its description.
    tools: Vec<(String, String)>,
    /// The tokens of the descriptions of its tools.
    tool_tokens: u64,
    /// `true` for a team.
    pub is_team: bool,
    skills: Vec<AgentSkill>,
    plugins: Vec<AgentPlugin>,
    /// The capabilities that its plugins were granted or denied.
    grants: Vec<CapabilityDecision>,
}

/// A skill of an agent.
#[derive(Clone)]
struct AgentSkill {
    name: String,
    /// The situation in which to use it; empty if it is part of the system prompt.
    description: String,
}

/// A plugin of an agent or team.
#[derive(Clone)]
struct AgentPlugin {
    id: String,
    /// The key of the config under which it stands.
    section: PluginSection,
    /// Its version and its description; `None` if it cannot be used.
    about: Option<(String, String)>,
    /// `true` if the person is asked before each call of its tools.
    is_confirmed: bool,
    /// The capabilities that the person is asked for when a tool lacks them.
    asks: Vec<String>,
}

impl RunnerFacts {
    pub fn of(app: &App, prepared: &PreparedRun) -> Self {
        let name = Arc::clone(prepared.entrant.runner().name());
        // A team has no tools of its own.
        let agent = prepared.entrant.agent();
        let specs = agent.map(|agent| agent.toolbox().specs()).unwrap_or_else(|| Arc::new([]));
        let skills = agent
            .iter()
            .flat_map(|agent| agent.skills.iter())
            .map(|skill| AgentSkill { name: skill.name.clone(), description: skill.description.clone() });
        let tools = specs.iter().map(|spec| {
            let first = spec.description.trim().lines().next().unwrap_or_default();
            (spec.name.clone(), first.to_owned())
        });
        Self {
            is_team: agent.is_none(),
            skills: skills.collect(),
            plugins: plugins_of(app, &name),
            grants: agent.map(|agent| agent.grants.decisions.clone()).unwrap_or_default(),
            agent: name,
            model: prepared.model.model.clone(),
            window: prepared.model.context_window.clone(),
            notes: prepared.notes.clone(),
            warnings: prepared.warnings.clone(),
            tools: tools.collect(),
            tool_tokens: CompletionRequest::new(Chat::new().snapshot(), specs).tokens(),
        }
    }

    /// Formats the list of tools, one line each.
    pub fn tools_text(&self) -> String {
        if self.tools.is_empty() {
            return "the agent has no tools of its own".into();
        }
        let width = self.tools.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let line = |(name, description): &(String, String)| {
            format!("  {:width$}  {}", one_line(name, 100), one_line(description, 200))
        };
        self.tools.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Returns the names of its skills that can be typed as commands.
    pub fn skill_commands(&self) -> Vec<String> {
        let is_command = |name: &str| !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/');
        self.skills.iter().filter(|skill| is_command(&skill.name)).map(|skill| skill.name.clone()).collect()
    }

    /// Formats the list of skills, one line each.
    pub fn skills_text(&self) -> String {
        if self.skills.is_empty() {
            return "the agent has no skills; a folder .shelly/skills/NAME with a SKILL.md is one".into();
        }
        let line = |AgentSkill { name: skill, description }: &AgentSkill| {
            let about = match description.is_empty() {
                true => "always part of its instructions".to_owned(),
                false => one_line(description, 200),
            };
            format!("  /{}  {DIM}{about}{PLAIN}", name(skill))
        };
        self.skills.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Formats the list of plugins, one line each.
    pub fn plugins_text(&self) -> String {
        if self.plugins.is_empty() {
            return format!("{} has no plugins of its own", name(&self.agent));
        }
        let line = |AgentPlugin { id, section, about, .. }: &AgentPlugin| {
            let (version, about) = match about {
                Some((version, about)) => (name(version), one_line(about, 120)),
                None => (String::new(), "cannot be used; shelly-host plugin list says why".into()),
            };
            format!("  {} {version}  {DIM}{section}: {about}{PLAIN}", name(id))
        };
        self.plugins.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Formats what its plugins were granted, and what they asked for and were not granted.
    pub fn grants_text(&self) -> String {
        if self.grants.is_empty() {
            return format!("the plugins of {} have no grants\n", name(&self.agent));
        }
        let line = |decision: &CapabilityDecision| {
            let CapabilityDecision { plugin, capability, allowed, rule } = decision;
            let word = match (is_asked(&self.plugins, decision), *allowed) {
                (true, _) => "asked each time, by",
                (false, true) => "granted by",
                (false, false) => "not granted by",
            };
            format!("  {}: {}  {DIM}{word} {}{PLAIN}\n", name(plugin), name(capability), name(rule))
        };
        let more = self.grants.len().saturating_sub(limits::CHAT_LIST_ROWS);
        let lines: String = self.grants.iter().take(limits::CHAT_LIST_ROWS).map(line).collect();
        let more = if more > 0 { format!("  and {more} more\n") } else { String::new() };
        format!("{lines}{more}")
    }

    /// Formats the estimated tokens of a conversation by part, and its share of the context window.
    pub fn context_text(&self, chat: &Chat) -> String {
        let snapshot = chat.snapshot();
        let of_role = |role: Role| -> u64 {
            let messages = snapshot.iter().filter(|entry| entry.message.role == role);
            messages.map(|entry| u64::from(entry.message.tokens())).sum()
        };
        let parts = [
            ("instructions", of_role(Role::System)),
            ("descriptions of tools", self.tool_tokens),
            ("your messages and notes", of_role(Role::User)),
            ("replies and tool calls", of_role(Role::Assistant)),
            ("tool results", of_role(Role::Tool)),
        ];
        let total: u64 = parts.iter().map(|(_, tokens)| tokens).sum();
        let lines = parts.iter().map(|(part, tokens)| format!("  {part:24} {:>6}\n", amount_in_words(*tokens)));
        let lines: String = lines.collect();
        let of = match self.window.tokens() {
            Some(window) if window > 0 => {
                format!("{} % of the window of {} tokens", total.saturating_mul(100) / window, amount_in_words(window))
            }
            _ => "the window of the model is unknown".into(),
        };
        format!("{lines}  {:24} {:>6}, {of}; estimated", "together", amount_in_words(total))
    }
}

/// Prepares an agent without running it. Returns its facts.
///
/// # Errors
///
/// A [`Report`] if the agent or the model cannot be used.
pub async fn facts_of(app: &App, agent: Option<&str>, model: Option<&str>) -> Result<RunnerFacts, Report> {
    let prepared = app.agent(agent, model, Recording::Off).await?;
    Ok(RunnerFacts::of(app, &prepared))
}

/// Returns `true` if the person is asked before a capability is used: before each call of the plugin's tools, or when one of them
/// lacks it. The toolboxes `git` and `exec`, if that may run any program, ask by themselves.
fn is_asked(plugins: &[AgentPlugin], decision: &CapabilityDecision) -> bool {
    let CapabilityDecision { plugin, capability, allowed, .. } = decision;
    let of_plugin = plugins.iter().find(|of| *of.id == **plugin);
    match (allowed, of_plugin) {
        (true, Some(of)) => of.is_confirmed,
        (true, None) => &**plugin == "git" || &**plugin == "exec" && capability.contains("'*'"),
        (false, of) => of.is_some_and(|of| of.asks.iter().any(|asked| capability.starts_with(&format!("{asked}: ")))),
    }
}

/// Returns the plugins that the config gives an agent or team, or those of the default agent.
fn plugins_of(app: &App, agent: &str) -> Vec<AgentPlugin> {
    let plugins = |config: &AgentConfig| {
        let plugin = |(section, id, uses): (PluginSection, &str, &PluginUse)| {
            let manifest = app.catalog.entry(id).and_then(|plugin| plugin.manifest().ok());
            let about = manifest.map(|manifest| (manifest.version.clone(), manifest.description.clone()));
            let asks = uses.ask.iter().map(|asked| asked.capability().to_string()).collect();
            AgentPlugin { id: id.to_owned(), section, about, is_confirmed: uses.confirm, asks }
        };
        config.all_plugins().map(plugin).collect()
    };
    match app.config.who(agent) {
        Ok(config) => plugins(config.own()),
        Err(_) => plugins(&app.default_agent(&mut Vec::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grant_that_is_asked_for_is_told_apart() {
        let plugin = |id: &str, is_confirmed, asks: &[&str]| AgentPlugin {
            id: id.into(),
            section: PluginSection::Plugins,
            about: None,
            is_confirmed,
            asks: asks.iter().map(|asked| (*asked).to_owned()).collect(),
        };
        let plugins = [plugin("read-files", true, &[]), plugin("fetch", false, &["http"])];
        for (id, capability, allowed, expected) in [
            ("read-files", "files: [{path: .}]", true, true),
            ("fetch", "clock: true", true, false),
            ("fetch", "http: ['*']", false, true),
            ("fetch", "files: [{path: .}]", false, false),
            ("exec", "programs: ['*']", true, true),
            ("exec", "programs: [cargo]", true, false),
            ("git", "programs: [git]", true, true),
            ("git", "programs: [git]", false, false),
        ] {
            let decision =
                CapabilityDecision { plugin: id.into(), capability: capability.into(), allowed, rule: "use".into() };
            assert_eq!(is_asked(&plugins, &decision), expected, "{id} {capability} {allowed}");
        }
    }
}
