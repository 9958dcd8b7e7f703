//! The plugins of an agent or team, and the roles that each has there.

use std::{fmt, sync::LazyLock};

use super::{AgentConfig, HostMiddleware, PluginUse, StepUse, ToolboxUse};

/// The key of an agent's or team's config under which a plugin stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginSection {
    /// `effects`: the plugin is an effect, with its tools.
    Effects,
    /// `middleware`: the plugin wraps runs, requests or calls.
    Middleware,
    /// `plugins`: the plugin has all its roles.
    Plugins,
    /// `toolboxes`: as `plugins`, for a plugin that comes with the host.
    Toolboxes,
    /// `coordinator` of a team: the plugin decides which member works next.
    Coordinator,
}

impl fmt::Display for PluginSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Effects => "effects",
            Self::Middleware => "middleware",
            Self::Plugins => "plugins",
            Self::Toolboxes => "toolboxes",
            Self::Coordinator => "coordinator",
        })
    }
}

/// The roles that a plugin has through one config entry. A more specific entry takes its role away from a general one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginRoles {
    /// Its effect and its tools.
    pub effect: bool,
    /// Its middleware.
    pub middleware: bool,
}

impl AgentConfig {
    /// Returns the roles of a plugin through one entry. `effects` and `middleware` are more specific than `plugins` and
    /// `toolboxes`: a plugin that stands in both has each role with the grants of the specific entry.
    pub fn roles(&self, listed: PluginSection, id: &str) -> PluginRoles {
        match listed {
            PluginSection::Effects => PluginRoles { effect: true, middleware: false },
            PluginSection::Middleware => PluginRoles { effect: false, middleware: true },
            PluginSection::Plugins | PluginSection::Toolboxes => PluginRoles {
                effect: self.effects.iter().flatten().all(|step| step.kind != id),
                middleware: self.middleware.iter().all(|step| step.kind != id),
            },
            PluginSection::Coordinator => PluginRoles { effect: true, middleware: true },
        }
    }

    /// Returns the key that bounds the cost of its own work in dollars, if there is one.
    pub fn bounds_usd(&self) -> Option<&'static str> {
        let of_step =
            |step: &StepUse| matches!(step.own(), Some(Ok(HostMiddleware::Budget(budget))) if budget.usd.is_some());
        let by_step = || self.middleware.iter().any(of_step).then_some("middleware.budget.usd");
        self.budget.usd.map(|_| "budget.usd").or_else(by_step)
    }

    /// Returns its plugins in order: effects, middleware, the coordinator, the entries of `plugins`, and those of
    /// toolboxes.
    pub fn all_plugins(&self) -> impl Iterator<Item = (PluginSection, &str, &PluginUse)> {
        let effects = self.effects.iter().flatten().map(|step| (PluginSection::Effects, step));
        let middleware =
            self.middleware.iter().filter(|step| step.own().is_none()).map(|step| (PluginSection::Middleware, step));
        let coordinator = self.coordinator.iter().map(|step| (PluginSection::Coordinator, step));
        let steps =
            effects.chain(middleware).chain(coordinator).map(|(listed, step)| (listed, step.kind.as_str(), &step.uses));
        let others = self.plugins.iter();
        let others = others.map(|(id, uses)| (PluginSection::Plugins, id.as_str(), uses.as_ref().unwrap_or(&NO_USE)));
        let shipped = self.toolboxes.iter().filter_map(ToolboxUse::shipped).flat_map(|toolbox| &toolbox.plugins);
        steps.chain(others).chain(shipped.map(|(id, uses)| (PluginSection::Toolboxes, id.as_str(), uses)))
    }
}

/// The use of a plugin whose entry says nothing.
static NO_USE: LazyLock<PluginUse> = LazyLock::new(PluginUse::default);
