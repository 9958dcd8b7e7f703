//! Lists what a person is asked to consent to: one thing a line, in words that need no other page.

use super::render::escaped;
use crate::{
    capability::Power,
    error::cut,
    limits,
    trust::{FactGroup, FactLine, TrustFacts},
};

/// Formats facts for a person, one string for each line. Facts about one subject stand together, the most dangerous first.
/// Equal ones about several agents share a line. `mark` returns the mark before a fact.
pub fn listed(facts: &TrustFacts, mark: impl Fn(&str) -> &'static str) -> Vec<String> {
    let mut shown_lines = Vec::new();
    for FactGroup { subject, lines } in facts.groups() {
        if let [one] = &lines[..] {
            shown_lines.push(format!("{} {}", mark(one.line), shown(one)));
            continue;
        }
        let items = items(lines, &mark);
        let whose = items[0].whose();
        let is_of_all = !whose.is_empty() && items.iter().all(|item| item.whose() == whose);
        let head = if is_of_all { format!("{subject}, {whose}") } else { subject };
        shown_lines.push(format!("  {}", escaped(&head)));
        for item in &items {
            let whose = if is_of_all { String::new() } else { item.whose() };
            let colon = if whose.is_empty() { "" } else { ": " };
            shown_lines.push(format!("    {} {}{colon}{}", item.mark, escaped(&whose), in_plain_words(item.what)));
        }
    }
    shown_lines
}

/// A fact about one or several agents and teams.
struct FactItem<'a> {
    mark: &'static str,
    what: &'a str,
    owners: Vec<&'a str>,
    role: Option<&'a str>,
}

impl FactItem<'_> {
    /// Says whose plugin it is about: `for the agents `a`, `b`, as their effect`; empty if it is about no owner.
    fn whose(&self) -> String {
        let agents: Option<Vec<_>> = self.owners.iter().map(|owner| owner.strip_prefix("the agent ")).collect();
        let owners = match agents.filter(|agents| agents.len() > 1) {
            Some(agents) => format!("the agents {}", agents.join(", ")),
            None => self.owners.join(", "),
        };
        match (self.owners.len(), self.role) {
            (0, _) => String::new(),
            (_, None) => format!("for {owners}"),
            (1, Some(role)) => format!("for {owners}, as its {role}"),
            (_, Some(role)) => format!("for {owners}, as their {role}"),
        }
    }
}

/// Puts equal facts about different owners together, in the order of the lines.
fn items<'a>(lines: Vec<FactLine<'a>>, mark: impl Fn(&str) -> &'static str) -> Vec<FactItem<'a>> {
    let mut items: Vec<FactItem<'a>> = Vec::new();
    for FactLine { line, owner, role, what, .. } in lines {
        let mark = mark(line);
        let is_same = |item: &&mut FactItem<'a>| item.mark == mark && item.what == what && item.role == role;
        match items.iter_mut().filter(|_| owner.is_some()).find(is_same) {
            Some(item) => item.owners.extend(owner),
            None => items.push(FactItem { mark, what, owners: owner.into_iter().collect(), role }),
        }
    }
    items
}

/// Formats a fact by itself.
pub fn shown(one: &FactLine<'_>) -> String {
    let subject = one.line.strip_suffix(one.what).unwrap_or_default();
    format!("{}{}", escaped(subject), in_plain_words(one.what))
}

/// Says what a fact means where it names something that only the config explains. The line itself, to which a person has
/// consented before, stays as it is. Facts that are asked about are never cut.
fn in_plain_words(what: &str) -> String {
    if what == "is guarded by no plugin" {
        return "works without a plugin that checks or limits what it does".into();
    }
    if let Some(plugins) = what.strip_prefix("is guarded by ") {
        return format!("is checked or limited by {}", escaped(&cut(plugins, limits::FACT_CHARS)));
    }
    let power = what.strip_prefix("has the power `").and_then(|rest| rest.strip_suffix('`'));
    match power.and_then(|name| serde_json::from_value::<Power>(name.into()).ok()) {
        Some(power) => format!("may {} (power `{power}`)", power_in_words(power)),
        None => escaped(&cut(what, limits::FACT_CHARS)),
    }
}

/// Says what a plugin may do that has a power.
fn power_in_words(power: Power) -> &'static str {
    match power {
        Power::SeeMessages => "read the messages of the conversation",
        Power::SeeArguments => "read the arguments of tool calls",
        Power::SeeResults => "read the results of tool calls",
        Power::Note => "add notes to the conversation",
        Power::EditResults => "change the results of tool calls",
        Power::Rewrite => "replace or remove messages",
        Power::SystemPrompt => "change the system prompt",
        Power::HideTools => "hide tools from the model",
        Power::ProvideTools => "offer more tools to the model",
        Power::AskModel => "send requests to the model",
        Power::Stop => "end the run",
        Power::Answer => "answer in the place of the model",
        Power::ProposeFiles => "propose changes of files",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::RiskLevel;

    fn facts(lines: &[(RiskLevel, &str)]) -> TrustFacts {
        lines.iter().map(|(risk, line)| (*risk, (*line).to_owned())).collect()
    }

    #[test]
    fn consent_is_listed_as_one_decision_a_line() {
        let all = facts(&[
            (RiskLevel::Reads, "the agent `a`: the plugin `filesystem` may read `/p`"),
            (RiskLevel::Little, "the agent `a`: the plugin `filesystem` has the power `propose-files`"),
            (RiskLevel::Little, "the agent `a`: the plugin `filesystem` is used, without asking you before each call"),
            (RiskLevel::Little, "the agent `a`: the effect `compact` has the power `ask-model`"),
            (RiskLevel::Little, "the agent `a`: the effect `compact` is used"),
            (RiskLevel::Little, "the agent `b`: the effect `compact` has the power `ask-model`"),
            (RiskLevel::Little, "the agent `b`: the effect `compact` is used"),
            (RiskLevel::Little, "the agent `b`: the effect `compact` may read the clock"),
            (RiskLevel::Little, "the agent `a` is guarded by no plugin"),
            (RiskLevel::Little, "the agent `b` is guarded by `redact`"),
            (RiskLevel::Sends, "the model `m` is at `http://h`; conversations are sent there"),
        ]);
        let lines = listed(&all, |line| if line.contains("clock") { " " } else { "+" });
        assert_eq!(
            lines,
            [
                "+ the model `m` is at `http://h`; conversations are sent there",
                "  the plugin `filesystem`, for the agent `a`",
                "    + may read `/p`",
                "    + may propose changes of files (power `propose-files`)",
                "    + is used, without asking you before each call",
                "+ the agent `a` works without a plugin that checks or limits what it does",
                "  the plugin `compact`",
                "    + for the agents `a`, `b`, as their effect: may send requests to the model (power `ask-model`)",
                "    + for the agents `a`, `b`, as their effect: is used",
                "      for the agent `b`, as its effect: may read the clock",
                "+ the agent `b` is checked or limited by `redact`",
            ]
        );
    }

    #[test]
    fn text_of_others_stays_as_it_is_quoted() {
        for path in ["/x is guarded by ", "/x has the power ", "/x has the power \\u{60}note\\u{60}"] {
            let line = format!("the agent `a`: the plugin `p` may read `{path}`");
            assert_eq!(listed(&facts(&[(RiskLevel::Reads, &line)]), |_| "+"), [format!("+ {line}")]);
        }
        let long = format!("the model `m` is at `{}`", "é".repeat(limits::FACT_CHARS));
        assert!(listed(&facts(&[(RiskLevel::Sends, &long)]), |_| "+")[0].ends_with('…'));
    }
}
