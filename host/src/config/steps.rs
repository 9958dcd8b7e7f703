//! Effects and middleware by their kind, such as `effects: [{kind: compact, params: {threshold: 0.8}}]`.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, value::MapAccessDeserializer},
};
use serde_json::Value;

use super::{
    PluginUse, UnspecifiedGrants,
    grants::StepMapping,
    values::{SetDuration, or_text},
};
use crate::capability::{Budget, KvScope, RequestedCapabilities};

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
        struct StepVisitor;
        impl<'de> de::Visitor<'de> for StepVisitor {
            type Value = StepUse;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the kind of an effect or middleware, or a mapping with `kind`")
            }
            fn visit_str<E: de::Error>(self, kind: &str) -> Result<StepUse, E> {
                Ok(StepUse { kind: id_of(kind), unsaid: UnspecifiedGrants::ALL, ..StepUse::default() })
            }
            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<StepUse, M::Error> {
                let (kind, uses, unsaid) = StepMapping::deserialize(MapAccessDeserializer::new(map))?.into_parts();
                Ok(StepUse { kind: id_of(&kind), uses, unsaid, is_default: false })
            }
        }
        from.deserialize_any(StepVisitor)
    }
}

impl JsonSchema for StepUse {
    fn schema_name() -> Cow<'static, str> {
        "StepUse".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = StepMapping::json_schema(generator);
        or_text(&mut schema);
        schema
    }
}

/// Returns the id of the plugin of a kind: documents write `sliding_window`, but ids contain no `_`.
fn id_of(kind: &str) -> String {
    kind.replace('_', "-")
}

impl StepUse {
    /// Builds a step that the file does not name.
    pub(super) fn by_default(kind: &str, params: Value) -> Self {
        let params = params.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
        let uses = PluginUse { params: params.collect(), ..PluginUse::default() };
        Self { kind: kind.into(), uses, unsaid: UnspecifiedGrants::ALL, is_default: true }
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
            #[serde(with = "SetDuration")]
            time: Duration,
        }
        let own = match self.kind.as_str() {
            "timeout" => self.params("time: 60s").map(|TimeoutParams { time }| HostMiddleware::Timeout(time)),
            "recovery" => self.params("").map(|NoMiddlewareParams {}| HostMiddleware::Recovery),
            "logger" => self.params("").map(|NoMiddlewareParams {}| HostMiddleware::Logger),
            "budget" => self.params("tokens: 100000").and_then(|budget: Budget| match budget == Budget::default() {
                true => Err("no bound is set; write `params: {tokens: 100000}`, or set usd, tool_calls or time".into()),
                false => Ok(HostMiddleware::Budget(budget)),
            }),
            _ => return None,
        };
        Some(own.and_then(|own| self.plainly(own)))
    }

    /// Returns `own` if the file grants nothing to it: steps of the host have only `kind` and `params`.
    pub(super) fn plainly<T>(&self, own: T) -> Result<T, String> {
        let params = self.uses.params.clone();
        match self.uses == (PluginUse { params, ..PluginUse::default() }) {
            true => Ok(own),
            false => Err("a step of the host has only the keys `kind` and `params`; remove the others".into()),
        }
    }

    /// Parses the params. `like` is an example for the error message; empty: the step takes no params.
    pub(super) fn params<T: DeserializeOwned>(&self, like: &str) -> Result<T, String> {
        let params = Value::Object(self.uses.params.clone().into_iter().collect());
        serde_json::from_value(params).map_err(|error| match like {
            "" => "has no params; remove `params`".into(),
            like => format!("{error}; write `params: {{{like}}}`"),
        })
    }

    /// Fills in the grants that the file leaves out, if the plugin comes with the host.
    pub(super) fn settle_as(&mut self, shipped: impl Fn(&str) -> Option<(RequestedCapabilities, KvScope)>) {
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
