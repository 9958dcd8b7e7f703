use std::sync::Arc;

use crate::{
    app::{App, PreparedRun, Recording},
    chat::{Chat, Role},
    cli::{live::amount_in_words, render::one_line},
    error::Report,
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
}

impl RunnerFacts {
    pub fn of(prepared: &PreparedRun) -> Self {
        let agent = Arc::clone(prepared.entrant.runner().name());
        // A team has no tools of its own.
        let specs = prepared.entrant.agent().map(|agent| agent.toolbox().specs()).unwrap_or_else(|| Arc::new([]));
        let tools = specs.iter().map(|spec| {
            let first = spec.description.trim().lines().next().unwrap_or_default();
            (spec.name.clone(), first.to_owned())
        });
        Self {
            agent,
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
    Ok(RunnerFacts::of(&prepared))
}
