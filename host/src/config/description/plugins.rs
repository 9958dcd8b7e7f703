//! Plugins of agents and teams: entries of `plugins`, effects, middleware, coordinators.

use std::path::Path;

use super::{
    PluginRuntimeInfo,
    grants::describe_grants,
    section::SectionDescription,
    shared_settings::budget_setting,
    wording::{SHOWN_PARAMS_BYTES, digest_of},
};
use crate::{
    agent::OnFailure,
    capability::Grant,
    config::{
        AgentConfig, ChangesUse, Config, HostMiddleware, PluginSection, PluginUse, StepUse,
        effective_setting::{is, map, or, set, shown},
        mask::masked_params,
    },
    files,
    trust::{RiskLevel, quoted},
};

/// Describes the plugins of one agent or team.
pub(super) struct PluginDescriber<'a> {
    agent: &'a AgentConfig,
    /// The ceiling of all its plugins; `None`: none.
    ceiling: Option<Grant>,
    config: &'a Config,
}

impl<'a> PluginDescriber<'a> {
    pub fn new(agent: &'a AgentConfig, config: &'a Config) -> Self {
        // A link in the project may lead anywhere.
        let resolve = |path: &Path| files::resolved(&config.root.join(path));
        Self { agent, ceiling: agent.ceiling.as_ref().map(|ceiling| ceiling.grant(resolve)), config }
    }

    /// Describes a plugin that stands in `listed`.
    pub fn plugin(
        &self,
        listed: PluginSection,
        id: &str,
        uses: &PluginUse,
        known: &PluginRuntimeInfo,
    ) -> SectionDescription {
        let what = match listed {
            PluginSection::Effects => "effect",
            PluginSection::Middleware => "middleware",
            PluginSection::Plugins | PluginSection::Toolboxes => "plugin",
            PluginSection::Coordinator => "coordinator",
        };
        let who = format!("the {} {}: the {what} {}", self.agent.word(), quoted(&self.agent.name), quoted(id));
        let mut section = SectionDescription::default();
        section.show("kinds", is(&known.kinds));
        if known.wasi {
            section.show("wasi", is(&"powerless").noted("declared in its plugin.toml; needs no grant"));
        }
        describe_grants(&mut section, &who, uses, self.ceiling.as_ref(), self.config);
        // A person is asked each time, with the details.
        section.show("ask", is(&uses.ask));
        section.show("confirm", set(&uses.confirm));
        let unasked = if uses.confirm { "" } else { ", without asking you before each call" };
        section.disclose(RiskLevel::Little, format!("{who} is used{unasked}"));
        section.show("changes", set(&uses.changes));
        if uses.changes == ChangesUse::Apply {
            let line = format!("{who} may apply file changes that it proposes, without asking you");
            section.disclose(RiskLevel::Changes, line);
        }
        section.show("params", is(&masked_params(&uses.params)));
        // Resources of its calls, below the fixed limits of the host.
        section.show("limits", uses.limits.setting_over(&self.config.limits));
        if known.kinds.iter().any(|kind| *kind == "effect" || kind.ends_with("middleware")) {
            section.show("on_failure", or(uses.on_failure, known.on_failure, "the default of the plugin"));
        }
        // These say how well a step guards the agent. For other plugins params are data, and a failure is told.
        if matches!(listed, PluginSection::Effects | PluginSection::Middleware | PluginSection::Coordinator) {
            if !uses.params.is_empty() {
                section.disclose(RiskLevel::Little, params_line(&who, uses));
            }
            if uses.on_failure == Some(OnFailure::Skip) {
                section.disclose(RiskLevel::Little, format!("{who} may fail, and the run continues without it"));
            }
        }
        section
    }

    /// Describes an effect, a middleware or a coordinator. A step that is a plugin takes the next item of `known`.
    pub fn step<'b>(
        &self,
        listed: PluginSection,
        step: &StepUse,
        known: &mut impl Iterator<Item = &'b PluginRuntimeInfo>,
    ) -> SectionDescription {
        let mut section = SectionDescription::default();
        let kind = is(&step.kind).noted_if(step.is_default, "added because the config names no effects");
        section.show("kind", kind);
        match step.own().filter(|_| listed == PluginSection::Middleware) {
            Some(own) => {
                let params = match own {
                    Ok(HostMiddleware::Timeout(limit)) => map([("time", is(&shown(limit)))]),
                    Ok(HostMiddleware::Budget(budget)) => budget_setting(&budget),
                    _ => map([]),
                };
                section.show("params", params);
            }
            None => {
                let known = known.next().cloned().unwrap_or_default();
                let plugin = self.plugin(listed, &step.kind, &step.uses, &known);
                // No file names the steps that the host adds by default.
                section.append(if step.is_default { plugin.without_facts() } else { plugin });
            }
        }
        section
    }
}

/// Returns the fact of a step's params: in full if they are short and hold no credential, otherwise a digest.
fn params_line(who: &str, uses: &PluginUse) -> String {
    let params = serde_json::to_string(&uses.params).expect("a map with string keys is JSON");
    let is_plain = params.len() <= SHOWN_PARAMS_BYTES
        && serde_json::to_value(&uses.params).ok() == serde_json::to_value(masked_params(&uses.params)).ok();
    match is_plain {
        true => format!("{who} has the params {}", quoted(&params)),
        false => format!("{who} has params (sha256:{})", digest_of(&params)),
    }
}
