//! Effects and middleware by their kind, such as `effects: [{kind: compact, params: {threshold: 0.8}}]`.

use std::{fmt, sync::LazyLock, time::Duration};

use indexmap::IndexMap;
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, value::MapAccessDeserializer},
};
use serde_json::{Value, json};

use super::{
    AgentConfig, ChangesUse, Config, HttpUse, LimitsConfig, PluginFolderUse, PluginUse, ProviderKind, TeamConfig,
    ToolboxUse, schema::set_duration,
};
use crate::{
    agent::OnFailure,
    capability::{Budget, KvScope, Powers, RequestedCapabilities},
};

/// The default share of a model's context window at which a conversation is compacted.
pub const CONTEXT_THRESHOLD: f64 = 0.8;

/// An effect or a middleware of an agent: a kind, or a mapping with options.
#[derive(Debug, Clone, Default)]
pub struct StepUse {
    /// The id of a plugin, or a kind of the host. A `_` in the file is a `-` here.
    pub kind: String,
    /// Grants and settings of the plugin.
    pub uses: PluginUse,
    /// Grants that the file leaves out: a plugin that comes with the host gets those that it asks for.
    pub unsaid: UnspecifiedGrants,
    /// `true` if the host added the step by default, and the file does not name it.
    pub is_default: bool,
}

/// Grants of a step that the file leaves out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnspecifiedGrants {
    /// `clock`.
    pub clock: bool,
    /// `random`.
    pub random: bool,
    /// `kv`.
    pub kv: bool,
    /// `powers`.
    pub powers: bool,
}

/// The kinds of the host's own middleware.
pub const OWN_MIDDLEWARE: [&str; 4] = ["timeout", "recovery", "logger", "budget"];

/// A middleware of the host. It is built in because a guest can neither enforce a time limit nor catch a panic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HostMiddleware {
    /// `timeout: {time: 60s}`: limits the wall time of each attempt.
    Timeout(Duration),
    /// `recovery`: turns a panic into a failure for the middleware around it.
    Recovery,
    /// `logger`: logs the beginning and end of each attempt.
    Logger,
    /// `budget: {tokens: 1000}`: combines with the agent's budget; the smaller value of each bound applies.
    Budget(Budget),
}

impl<'de> Deserialize<'de> for StepUse {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct StepMapping {
            kind: String,
            #[serde(default)]
            params: IndexMap<String, Value>,
            #[serde(default)]
            files: Vec<PluginFolderUse>,
            clock: Option<bool>,
            random: Option<bool>,
            kv: Option<KvScope>,
            #[serde(default)]
            models: Vec<String>,
            #[serde(default)]
            http: Vec<HttpUse>,
            #[serde(default)]
            credentials: Vec<String>,
            #[serde(default)]
            programs: Vec<String>,
            powers: Option<Powers>,
            #[serde(default)]
            confirm: bool,
            #[serde(default)]
            changes: ChangesUse,
            on_failure: Option<OnFailure>,
            #[serde(default)]
            limits: LimitsConfig,
        }
        struct StepVisitor;
        impl<'de> de::Visitor<'de> for StepVisitor {
            type Value = StepUse;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the kind of an effect or middleware, or a mapping with `kind`")
            }
            fn visit_str<E: de::Error>(self, kind: &str) -> Result<StepUse, E> {
                let unsaid = UnspecifiedGrants { clock: true, random: true, kv: true, powers: true };
                Ok(StepUse { kind: id_of(kind), unsaid, ..StepUse::default() })
            }
            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<StepUse, M::Error> {
                let full = StepMapping::deserialize(MapAccessDeserializer::new(map))?;
                let unsaid = UnspecifiedGrants {
                    clock: full.clock.is_none(),
                    random: full.random.is_none(),
                    kv: full.kv.is_none(),
                    powers: full.powers.is_none(),
                };
                let uses = PluginUse {
                    files: full.files,
                    clock: full.clock.unwrap_or_default(),
                    random: full.random.unwrap_or_default(),
                    chat: false,
                    kv: full.kv,
                    models: full.models,
                    http: full.http,
                    credentials: full.credentials,
                    programs: full.programs,
                    powers: full.powers.unwrap_or_default(),
                    // Asking for more during a run would widen what an effect or a middleware may see.
                    ask: Vec::new(),
                    confirm: full.confirm,
                    changes: full.changes,
                    params: full.params,
                    on_failure: full.on_failure,
                    limits: full.limits,
                };
                Ok(StepUse { kind: id_of(&full.kind), uses, unsaid, is_default: false })
            }
        }
        from.deserialize_any(StepVisitor)
    }
}

/// Returns the id of the plugin of a kind: documents write `sliding_window`, but ids contain no `_`.
fn id_of(kind: &str) -> String {
    kind.replace('_', "-")
}

impl StepUse {
    /// Builds a step that the file does not name.
    fn by_default(kind: &str, params: Value) -> Self {
        let params = params.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
        let uses = PluginUse { params: params.collect(), ..PluginUse::default() };
        let unsaid = UnspecifiedGrants { clock: true, random: true, kv: true, powers: true };
        Self { kind: kind.into(), uses, unsaid, is_default: true }
    }

    /// Returns the middleware of the host with this kind; `None` if the step is a plugin.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong and what would be right.
    pub fn own(&self) -> Option<Result<HostMiddleware, String>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct NoMiddlewareParams {}
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct TimeoutParams {
            #[serde(deserialize_with = "set_duration")]
            time: Duration,
        }
        let own = match self.kind.as_str() {
            "timeout" => self.params("time: 60s").map(|TimeoutParams { time }| HostMiddleware::Timeout(time)),
            "recovery" => self.params("").map(|NoMiddlewareParams {}| HostMiddleware::Recovery),
            "logger" => self.params("").map(|NoMiddlewareParams {}| HostMiddleware::Logger),
            "budget" => self.params("tokens: 100000").and_then(|budget: Budget| match budget == Budget::default() {
                true => Err("it bounds nothing: write params: {tokens: 100000}, or usd, tool_calls, time".into()),
                false => Ok(HostMiddleware::Budget(budget)),
            }),
            _ => return None,
        };
        Some(own.and_then(|own| self.plainly(own)))
    }

    /// Returns `own` if the file grants nothing to it: steps of the host have only `kind` and `params`.
    pub(super) fn plainly<T>(&self, own: T) -> Result<T, String> {
        let PluginUse {
            files,
            clock,
            random,
            chat,
            kv,
            models,
            http,
            credentials,
            powers,
            programs,
            ask,
            confirm,
            changes,
            params: _,
            on_failure,
            limits,
        } = &self.uses;
        let switches = [*clock, *random, *chat, *confirm, kv.is_some(), on_failure.is_some()];
        let is_plain = files.is_empty()
            && models.is_empty()
            && http.is_empty()
            && credentials.is_empty()
            && ask.is_empty()
            && powers.is_empty()
            && programs.is_empty()
            && *limits == LimitsConfig::default()
            && *changes == ChangesUse::default()
            && switches == [false; 6];
        match is_plain {
            true => Ok(own),
            false => Err("it is the host's own: it has `kind` and `params` alone".into()),
        }
    }

    /// Parses the params. `like` is an example for the error message; empty: the step takes no params.
    pub(super) fn params<T: DeserializeOwned>(&self, like: &str) -> Result<T, String> {
        let params = Value::Object(self.uses.params.clone().into_iter().collect());
        serde_json::from_value(params).map_err(|error| match like {
            "" => "it has no params".into(),
            like => format!("{error}: write params: {{{like}}}"),
        })
    }

    /// Fills in the grants that the file leaves out, if the plugin comes with the host.
    fn settle_as(&mut self, shipped: impl Fn(&str) -> Option<(RequestedCapabilities, KvScope)>) {
        if let Some((wants, store)) = shipped(&self.kind) {
            self.settle(&wants, store);
        }
    }

    fn settle(&mut self, wants: &RequestedCapabilities, store: KvScope) {
        let Self { uses, unsaid, .. } = self;
        let UnspecifiedGrants { clock, random, kv, powers } = std::mem::take(unsaid);
        uses.clock |= clock && wants.clock;
        uses.random |= random && wants.random;
        if kv && wants.kv {
            uses.kv = Some(store);
        }
        if powers {
            uses.powers.clone_from(&wants.powers);
        }
    }
}

impl Config {
    /// Fills in what the file leaves to the host: grants of plugins that come with the host, and the effects of agents
    /// that name none. `shipped` returns what a plugin that comes with the host asks for and the scope of its store;
    /// `shortens` returns `true` for an effect that shortens conversations.
    pub fn settle(
        &mut self,
        shipped: impl Fn(&str) -> Option<(RequestedCapabilities, KvScope)>,
        shortens: impl Fn(&str) -> bool,
    ) {
        let windows: Vec<_> = self.agents.iter().map(|agent| self.may_know_window(agent)).collect();
        for (agent, may_know_window) in self.agents.iter_mut().zip(windows) {
            agent.settle(may_know_window, &shipped, &shortens);
        }
        for TeamConfig { own, .. } in &mut self.teams {
            own.coordinator.iter_mut().chain(&mut own.middleware).for_each(|step| step.settle_as(&shipped));
        }
    }

    /// Returns `true` if the context window of an agent's model is known or can be learned, from the server or from a
    /// request that it refuses as too long. A plugin says nothing about it, and a window of 0 is not to be relied on.
    pub fn may_know_window(&self, agent: &AgentConfig) -> bool {
        match self.provider(agent.provider.as_deref()) {
            Ok(Some(provider)) => {
                let can_be_learned = provider.kind != ProviderKind::Plugin && provider.context_window.is_none();
                self.context_window(provider).is_some() || can_be_learned
            }
            // The model is discovered later.
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

impl AgentConfig {
    /// Does the same as [`Config::settle`] for one agent; see [`Config::may_know_window`] for `may_know_window`.
    pub fn settle(
        &mut self,
        may_know_window: bool,
        shipped: impl Fn(&str) -> Option<(RequestedCapabilities, KvScope)>,
        shortens: impl Fn(&str) -> bool,
    ) {
        let is_kept_short = self.plugins.keys().any(|id| shortens(id));
        if self.effects.is_none() && may_know_window && !is_kept_short {
            let all = default_effects(self);
            self.effects = all.iter().all(|step| shipped(&step.kind).is_some()).then_some(all);
        }
        self.effects.iter_mut().flatten().chain(&mut self.middleware).for_each(|step| step.settle_as(&shipped));
    }
}

/// Returns the effects that keep a conversation within its model's context window if the file names none.
pub fn default_effects(agent: &AgentConfig) -> Vec<StepUse> {
    let threshold = agent.options.context_threshold.filter(|share| *share > 0.0).unwrap_or(CONTEXT_THRESHOLD);
    vec![
        StepUse::by_default("trim-tool-results", json!({})),
        StepUse::by_default("observation-mask", json!({"threshold": 0.5})),
        StepUse::by_default("compact", json!({"threshold": threshold})),
    ]
}

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
