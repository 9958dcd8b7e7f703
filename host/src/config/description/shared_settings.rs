//! Values that stand in several parts of the config.

use std::time::Duration;

use serde_json::Value;

use crate::{
    capability::{Budget, READING_METHODS},
    config::{
        HttpUse,
        effective_setting::{EffectiveSetting, SettingValue, is, map, shown},
    },
    model::{BatchConfig, RateLimitConfig},
};

pub(super) fn http_setting(HttpUse { url, methods, networks }: &HttpUse) -> EffectiveSetting {
    map([
        ("url", is(url)),
        ("methods", if methods.is_empty() { is(&READING_METHODS) } else { is(methods) }),
        ("networks", or_null(networks, "public addresses, or the named address")),
    ])
}

pub(super) fn or_null(list: &[String], without: &'static str) -> EffectiveSetting {
    if list.is_empty() { is(&()).noted(without) } else { is(list) }
}

pub(super) fn batch_setting(batch: &BatchConfig) -> EffectiveSetting {
    let BatchConfig { window, poll_interval, timeout, max_size } = batch;
    map([
        ("window", is(&shown(*window))),
        ("poll_interval", is(&shown(*poll_interval))),
        ("timeout", is(&shown(*timeout))),
        ("max_size", is(max_size)),
    ])
}

pub(super) fn rate_limit_setting(limit: &RateLimitConfig) -> EffectiveSetting {
    let RateLimitConfig { input_tpm, output_tpm, rpm } = limit;
    let limits = [("input_tpm", input_tpm), ("output_tpm", output_tpm), ("rpm", rpm)];
    map(limits.map(|(key, limit)| (key, is(limit).noted_if(limit.is_none(), "no limit of its own"))))
}

pub(super) fn time_or(time: Option<Duration>, default: Duration) -> EffectiveSetting {
    is(&shown(time.unwrap_or(default))).noted_if(time.is_none(), "default")
}

pub(super) fn budget_setting(budget: &Budget) -> EffectiveSetting {
    let Budget { tokens, usd, tool_calls, time } = budget;
    let or_none = |value: EffectiveSetting| {
        if value.holds == SettingValue::One(Value::Null) { value.noted("no limit of its own") } else { value }
    };
    map([
        ("tokens", or_none(is(tokens))),
        ("usd", or_none(is(usd))),
        ("tool_calls", or_none(is(tool_calls))),
        ("time", or_none(is(&time.map(shown)))),
    ])
}
