//! The key `limits`: resource limits of plugin calls.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    effective_setting::{EffectiveSetting, is, map, shown},
    values::{BoundedDuration, BoundedNumber},
};
use crate::{
    error::{ErrorKind, Report},
    limits,
};

/// Limits of one plugin call, and of all calls of a plugin together. A limit that is left out has the value that the
/// config sets for all plugins, or the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsConfig {
    /// Wall time of a call, in place of the host's times for a tool, for an effect or a middleware, and for a provider.
    /// Waiting for a free slot and for a slow reader does not count.
    #[serde(default, with = "BoundedDuration::<{ limits::PLUGIN_TIME_CEILING.as_secs() }>")]
    pub time: Option<Duration>,
    /// CPU time of a call.
    #[serde(default, with = "BoundedDuration::<{ limits::PLUGIN_CPU_CEILING.as_secs() }>")]
    pub cpu: Option<Duration>,
    /// Bytes of all memories of one instance together.
    #[serde(default, with = "BoundedNumber::<1, { limits::PLUGIN_MEMORY_CEILING as u64 }>")]
    pub memory_bytes: Option<u64>,
    /// Elements of all tables of one instance together.
    #[serde(default, with = "BoundedNumber::<0, { limits::PLUGIN_TABLE_ELEMENTS_CEILING as u64 }>")]
    pub table_elements: Option<u64>,
    /// Core instances in one instance.
    #[serde(default, with = "BoundedNumber::<1, { limits::PLUGIN_CORE_INSTANCES_CEILING as u64 }>")]
    pub instances: Option<u64>,
    /// Stack bytes of a guest. It can be set only for all plugins at once, since their stacks have one size.
    #[serde(default, with = "BoundedNumber::<1, { limits::PLUGIN_STACK_CEILING as u64 }>")]
    pub stack_bytes: Option<u64>,
    /// Bytes of memory and tables of all instances of all plugins together. It can be set only for the whole process.
    #[serde(
        default,
        with = "BoundedNumber::<{ limits::GUEST_MEMORY_LEAST as u64 }, { limits::GUEST_MEMORY_CEILING as u64 }>"
    )]
    pub total_memory_bytes: Option<u64>,
    /// Bytes of texts and lists that are passed into one call.
    #[serde(default, with = "BoundedNumber::<1, { limits::PLUGIN_CROSSING_CEILING as u64 }>")]
    pub input_bytes: Option<u64>,
    /// Bytes of texts and lists that one call passes out.
    #[serde(default, with = "BoundedNumber::<1, { limits::PLUGIN_CROSSING_CEILING as u64 }>")]
    pub output_bytes: Option<u64>,
    /// Log entries of one call.
    #[serde(default, with = "BoundedNumber::<0, { limits::LOG_ENTRIES_CEILING as u64 }>")]
    pub log_entries: Option<u64>,
    /// Bytes of all log entries of one call.
    #[serde(default, with = "BoundedNumber::<0, { limits::LOG_BYTES_CEILING as u64 }>")]
    pub log_bytes: Option<u64>,
    /// Calls of imported functions a second, over all calls together.
    #[serde(default, with = "BoundedNumber::<1, { limits::HOST_CALLS_PER_SECOND_CEILING as u64 }>")]
    pub host_calls_per_second: Option<u64>,
    /// Calls at the same time.
    #[serde(default, with = "BoundedNumber::<1, { limits::PLUGIN_CALLS as u64 }>")]
    pub concurrency: Option<u64>,
    /// Bytes of the state that an effect or a middleware may keep.
    #[serde(default, with = "BoundedNumber::<0, { limits::STATE_BYTES as u64 }>")]
    pub state_bytes: Option<u64>,
    /// HTTP requests a minute of a plugin of an agent; redirects count.
    #[serde(default, with = "BoundedNumber::<1, { limits::EGRESS_REQUESTS_PER_MINUTE_CEILING as u64 }>")]
    pub http_requests_per_minute: Option<u64>,
    /// Its HTTP requests and open responses at the same time.
    #[serde(default, with = "BoundedNumber::<1, { limits::EGRESS_CONCURRENCY_CEILING as u64 }>")]
    pub http_concurrency: Option<u64>,
    /// Bytes of the body of one of its HTTP requests.
    #[serde(default, with = "BoundedNumber::<0, { limits::EGRESS_REQUEST_BYTES_CEILING }>")]
    pub http_request_bytes: Option<u64>,
    /// Bytes of the body of one HTTP response, decoded.
    #[serde(default, with = "BoundedNumber::<0, { limits::EGRESS_RESPONSE_BYTES_CEILING }>")]
    pub http_response_bytes: Option<u64>,
}

/// A numeric limit with its key, its configured value and its default.
struct LimitSetting {
    key: &'static str,
    says: Option<u64>,
    default: u64,
}

impl LimitsConfig {
    /// Returns these limits, completed by those of `all`.
    pub fn over(&self, all: &Self) -> Self {
        Self {
            time: self.time.or(all.time),
            cpu: self.cpu.or(all.cpu),
            memory_bytes: self.memory_bytes.or(all.memory_bytes),
            table_elements: self.table_elements.or(all.table_elements),
            instances: self.instances.or(all.instances),
            stack_bytes: self.stack_bytes.or(all.stack_bytes),
            total_memory_bytes: self.total_memory_bytes.or(all.total_memory_bytes),
            input_bytes: self.input_bytes.or(all.input_bytes),
            output_bytes: self.output_bytes.or(all.output_bytes),
            log_entries: self.log_entries.or(all.log_entries),
            log_bytes: self.log_bytes.or(all.log_bytes),
            host_calls_per_second: self.host_calls_per_second.or(all.host_calls_per_second),
            concurrency: self.concurrency.or(all.concurrency),
            state_bytes: self.state_bytes.or(all.state_bytes),
            http_requests_per_minute: self.http_requests_per_minute.or(all.http_requests_per_minute),
            http_concurrency: self.http_concurrency.or(all.http_concurrency),
            http_request_bytes: self.http_request_bytes.or(all.http_request_bytes),
            http_response_bytes: self.http_response_bytes.or(all.http_response_bytes),
        }
    }

    fn numbers(&self) -> [LimitSetting; 15] {
        let number = |key, says, default: usize| LimitSetting { key, says, default: default as u64 };
        let (entries, calls) = (limits::LOG_ENTRIES as usize, limits::HOST_CALLS_PER_SECOND as usize);
        let at_once = limits::PLUGIN_CONCURRENCY as usize;
        [
            number("memory_bytes", self.memory_bytes, limits::PLUGIN_MEMORY_BYTES),
            number("table_elements", self.table_elements, limits::PLUGIN_TABLE_ELEMENTS),
            number("instances", self.instances, limits::PLUGIN_CORE_INSTANCES),
            number("stack_bytes", self.stack_bytes, limits::PLUGIN_STACK_BYTES),
            number("input_bytes", self.input_bytes, limits::PLUGIN_INPUT_BYTES),
            number("output_bytes", self.output_bytes, limits::PLUGIN_OUTPUT_BYTES),
            number("log_entries", self.log_entries, entries),
            number("log_bytes", self.log_bytes, limits::LOG_BYTES),
            number("host_calls_per_second", self.host_calls_per_second, calls),
            number("concurrency", self.concurrency, at_once),
            number("state_bytes", self.state_bytes, limits::STATE_BYTES),
            number(
                "http_requests_per_minute",
                self.http_requests_per_minute,
                limits::EGRESS_REQUESTS_PER_MINUTE as usize,
            ),
            number("http_concurrency", self.http_concurrency, limits::EGRESS_CONCURRENCY as usize),
            number("http_request_bytes", self.http_request_bytes, limits::EGRESS_REQUEST_BYTES as usize),
            number("http_response_bytes", self.http_response_bytes, limits::EGRESS_RESPONSE_BYTES as usize),
        ]
    }

    /// Checks that these can be the limits of one plugin. `at` is their position in the config.
    pub(super) fn check_one(&self, at: &str) -> Result<(), Report> {
        let of_all = |key: &str| {
            Err(Report::new(ErrorKind::Usage, format!("{at}.{key}: can be set only for all plugins"))
                .hint(format!("write `{key}` under the top-level `limits` of the config")))
        };
        match (self.stack_bytes, self.total_memory_bytes) {
            (Some(_), _) => of_all("stack_bytes"),
            (None, Some(_)) => of_all("total_memory_bytes"),
            (None, None) => Ok(()),
        }
    }

    /// Refuses a memory limit of one call that the budget of all plugins can never satisfy. `at` is the position of these
    /// limits in the config, `total` the bytes that all plugins may hold together.
    pub(super) fn check_memory(&self, at: &str, total: Option<u64>) -> Result<(), Report> {
        let Some((total, bytes)) = total.zip(self.memory_bytes) else { return Ok(()) };
        let most = total / 4 * u64::from(limits::PLUGIN_QUARTERS_OF_ONE);
        if bytes <= most {
            return Ok(());
        }
        let what = format!(
            "{at}.memory_bytes: must be at most {most}, the share of one plugin in limits.total_memory_bytes ({total}), but is \
             {bytes}"
        );
        Err(Report::new(ErrorKind::Usage, what).hint("lower memory_bytes, or raise limits.total_memory_bytes"))
    }

    /// Shows the limits that apply to all plugins.
    pub(super) fn setting(&self, guest_memory: Option<(u64, &'static str)>) -> EffectiveSetting {
        let unknown = "half of the memory of the machine or its control group";
        let total = match guest_memory {
            Some((bytes, from)) => is(&bytes).noted(from),
            None => is(&self.total_memory_bytes).noted_if(self.total_memory_bytes.is_none(), unknown),
        };
        let mut keys = self.resolved(&Self::default(), "default");
        keys.push(("total_memory_bytes", total));
        map(keys)
    }

    /// Shows the limits that apply to one plugin; `all` are those of all plugins.
    pub(super) fn setting_over(&self, all: &Self) -> EffectiveSetting {
        if *self == Self::default() {
            return is(&()).noted("the values of the top-level `limits`");
        }
        map(self.resolved(all, "from the top-level `limits`"))
    }

    /// Returns every key with the value that applies. Keys that these limits do not set carry the note `from`.
    fn resolved(&self, all: &Self, from: &'static str) -> Vec<(&'static str, EffectiveSetting)> {
        let is_of_one = from != "default";
        let all_numbers = all.numbers();
        let numbers =
            self.numbers().into_iter().zip(all_numbers).filter(|(own, _)| !is_of_one || own.key != "stack_bytes");
        let numbers = numbers.map(|(own, of_all)| {
            let setting = match own.says {
                Some(number) => is(&number),
                None => is(&of_all.says.unwrap_or(own.default)).noted(from),
            };
            (own.key, setting)
        });
        let time = match (self.time, all.time) {
            (Some(time), _) => is(&shown(time)),
            (None, Some(time)) => is(&shown(time)).noted(from),
            (None, None) => is(&()).noted("see `house`: tool_time, plugin_step_time, completion_time"),
        };
        let cpu = match self.cpu {
            Some(time) => is(&shown(time)),
            None => is(&shown(all.cpu.unwrap_or(limits::PLUGIN_CPU_TIME))).noted(from),
        };
        [("time", time), ("cpu", cpu)].into_iter().chain(numbers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parse(text: &str) -> Result<Config, Report> {
        Config::parse(text, "/project".into())
    }

    #[test]
    fn invalid_plugin_limit_is_refused_by_name() {
        let of_one = |limits: &str| format!("agents: [{{name: a, plugins: {{p: {{limits: {limits}}}}}}}]");
        let of_model = |rest: &str| format!("providers: [{{name: m, {rest}}}]");
        for (text, says) in [
            ("limits: {memory_bytes: 0}".into(), "the value of `memory_bytes` cannot be used: must be at least 1"),
            (
                "limits: {memory_bytes: 1073741825}".into(),
                "the value of `memory_bytes` cannot be used: must be at most 1073741824",
            ),
            (
                "limits: {table_elements: 1000001}".into(),
                "the value of `table_elements` cannot be used: must be at most 1000000",
            ),
            ("limits: {instances: 257}".into(), "the value of `instances` cannot be used: must be at most 256"),
            (
                "limits: {stack_bytes: 8388609}".into(),
                "the value of `stack_bytes` cannot be used: must be at most 8388608",
            ),
            (
                "limits: {total_memory_bytes: 1000}".into(),
                "`total_memory_bytes` cannot be used: must be at least 16777216",
            ),
            (of_one("{total_memory_bytes: 99999999}"), "plugins.p.limits.total_memory_bytes: can be set only for all"),
            (
                "limits: {total_memory_bytes: 100000000, memory_bytes: 80000000}".into(),
                "limits.memory_bytes: must be at most 75000000, the share of one plugin in limits.total_memory_bytes (100000000)",
            ),
            (
                of_one("{memory_bytes: 80000000}") + "\nlimits: {total_memory_bytes: 100000000}",
                "a.plugins.p.limits.memory_bytes: must be at most 75000000",
            ),
            ("limits: {input_bytes: 0}".into(), "the value of `input_bytes` cannot be used: must be at least 1"),
            (
                "limits: {output_bytes: 1073741825}".into(),
                "the value of `output_bytes` cannot be used: must be at most 1073741824",
            ),
            (
                "limits: {log_entries: 100001}".into(),
                "the value of `log_entries` cannot be used: must be at most 100000",
            ),
            (
                "limits: {log_bytes: 67108865}".into(),
                "the value of `log_bytes` cannot be used: must be at most 67108864",
            ),
            (
                "limits: {host_calls_per_second: 0}".into(),
                "the value of `host_calls_per_second` cannot be used: must be at least 1",
            ),
            ("limits: {host_calls_per_second: 10000001}".into(), "must be at most 10000000"),
            ("limits: {concurrency: 0}".into(), "the value of `concurrency` cannot be used: must be at least 1"),
            ("limits: {concurrency: 257}".into(), "the value of `concurrency` cannot be used: must be at most 256"),
            ("limits: {state_bytes: 65537}".into(), "the value of `state_bytes` cannot be used: must be at most 65536"),
            (
                "limits: {http_requests_per_minute: 0}".into(),
                "`http_requests_per_minute` cannot be used: must be at least 1",
            ),
            ("limits: {http_requests_per_minute: 60001}".into(), "must be at most 60000"),
            (
                "limits: {http_concurrency: 0}".into(),
                "the value of `http_concurrency` cannot be used: must be at least 1",
            ),
            ("limits: {http_concurrency: 257}".into(), "must be at most 256"),
            ("limits: {http_request_bytes: 1073741825}".into(), "must be at most 1073741824"),
            ("limits: {http_response_bytes: 4294967297}".into(), "must be at most 4294967296"),
            ("limits: {time: 0s}".into(), "the value of `time` cannot be used: must be more than 0"),
            ("limits: {time: 2h}".into(), "the value of `time` cannot be used: must be at most 1h"),
            ("limits: {cpu: 2h}".into(), "the value of `cpu` cannot be used: must be at most 1h"),
            ("limits: {cpu: 2}".into(), "the value of `cpu` cannot be used"),
            ("limits: {memory_bytes: -1}".into(), "`memory_bytes` is not a whole number"),
            ("limits:\n  state_bytes: -1".into(), "`state_bytes` is not a whole number"),
            (of_one("{log_entries: 1.5}"), "`log_entries` is not a whole number"),
            ("limits: {memory: 1}".into(), "there is no key `memory`"),
            (of_one("{time: 2h}"), "the value of `time` cannot be used: must be at most 1h"),
            (of_one("{stack_bytes: 1000}"), "agents.a.plugins.p.limits.stack_bytes: can be set only for all"),
            (
                of_model("kind: plugin, plugin: p, limits: {time: 2h}"),
                "the value of `time` cannot be used: must be at most 1h",
            ),
            (
                of_model("kind: openai, model: x, limits: {time: 1s}"),
                "providers.m.limits: valid only for `kind: plugin`",
            ),
        ] {
            let report = parse(&text).unwrap_err();
            assert!(report.to_string().contains(says) && report.hint.is_some(), "{text}\n{report:?}");
        }
        let least = "{table_elements: 0, log_entries: 0, log_bytes: 0, state_bytes: 0, time: 1ms, cpu: 1ms}";
        assert!(parse(&of_one(least)).is_ok());
    }

    #[test]
    fn limits_of_one_plugin_override_those_of_all() {
        let text = "limits: {time: 90s, log_entries: 5}
agents: [{name: a, plugins: {p: {limits: {log_entries: 7, cpu: 2s}}, q: }}]";
        let config = parse(text).unwrap();
        let own = &config.agents[0].plugins["p"].as_ref().unwrap().limits;
        let LimitsConfig { time, cpu, log_entries, memory_bytes, .. } = own.over(&config.limits);
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
        assert_eq!((seconds(time), seconds(cpu), log_entries, memory_bytes), (Some(90), Some(2), Some(7), None));
        let yaml = own.setting_over(&config.limits).to_yaml();
        for line in [
            "time: 1m 30s # from the top-level `limits`",
            "cpu: 2s",
            "log_entries: 7",
            "concurrency: 64 # from the top-level `limits`",
        ] {
            assert!(yaml.lines().any(|found| found == line), "{line}\n{yaml}");
        }
        assert!(!yaml.contains("stack_bytes"), "{yaml}");
        let yaml = config.limits.setting(Some((7, "half"))).to_yaml();
        for line in [
            "time: 1m 30s",
            "cpu: 30s # default",
            "total_memory_bytes: 7 # half",
            "log_entries: 5",
            "stack_bytes: 524288 # default",
        ] {
            assert!(yaml.lines().any(|found| found == line), "{line}\n{yaml}");
        }
        assert_eq!(
            LimitsConfig::default().setting_over(&config.limits).to_yaml().trim(),
            "null # the values of the top-level `limits`"
        );
    }
}
