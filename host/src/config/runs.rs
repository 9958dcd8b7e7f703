//! The key `runs`: limits on what the agents of one run use together.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    effective_setting::{EffectiveSetting, map, or},
    values::BoundedNumber,
};
use crate::{agent::RunLimits, limits};

/// Limits on what the agents of one run use together. One that is left out has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunsConfig {
    /// Agents that may be started in one run, or in all runs of one session together.
    #[serde(default, with = "BoundedNumber::<1, { limits::AGENTS_PER_RUN_CEILING as u64 }>")]
    pub agents: Option<u64>,
    /// Agents that work at the same time; others wait. An agent that waits for others does not count.
    #[serde(default, with = "BoundedNumber::<1, { limits::WORKING_AGENTS_CEILING as u64 }>")]
    pub working_agents: Option<u64>,
    /// Bytes of all conversations of a run together.
    #[serde(
        default,
        with = "BoundedNumber::<{ limits::CHATS_PER_RUN_LEAST as u64 }, { limits::CHATS_PER_RUN_CEILING as u64 }>"
    )]
    pub chat_bytes: Option<u64>,
}

impl RunsConfig {
    /// Returns these limits, completed by those of `all`.
    pub(super) fn over(&self, all: &Self) -> Self {
        Self {
            agents: self.agents.or(all.agents),
            working_agents: self.working_agents.or(all.working_agents),
            chat_bytes: self.chat_bytes.or(all.chat_bytes),
        }
    }

    /// Returns the limits that apply.
    pub fn limits(&self) -> RunLimits {
        let default = RunLimits::default();
        let or =
            |value: Option<u64>, default: usize| value.map_or(default, |value| value.try_into().unwrap_or(default));
        RunLimits {
            agents: or(self.agents, default.agents),
            working_agents: or(self.working_agents, default.working_agents),
            chat_bytes: or(self.chat_bytes, default.chat_bytes),
        }
    }

    /// Shows the limits that apply, and notes which of them are defaults.
    pub(super) fn setting(&self) -> EffectiveSetting {
        let default = RunLimits::default();
        let shown = |value, default: usize, note| or(value, default as u64, note);
        map([
            ("agents", shown(self.agents, default.agents, "started in one run; default")),
            ("working_agents", shown(self.working_agents, default.working_agents, "at once; others wait; default")),
            ("chat_bytes", shown(self.chat_bytes, default.chat_bytes, "of all conversations of a run; default")),
        ])
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn parse(text: &str) -> Result<Config, crate::error::Report> {
        Config::parse(text, "/project".into())
    }

    #[test]
    fn invalid_run_limit_is_refused_by_name() {
        for (text, says) in [
            ("runs: {agents: 0}", "`agents` cannot be used: must be at least 1"),
            ("runs: {agents: 10001}", "`agents` cannot be used: must be at most 10000"),
            ("runs: {working_agents: 1025}", "`working_agents` cannot be used: must be at most 1024"),
            ("runs: {chat_bytes: 1000}", "`chat_bytes` cannot be used: must be at least 1048576"),
            ("runs: {depth: 1}", "there is no key `depth`"),
        ] {
            let report = parse(text).unwrap_err();
            assert!(report.to_string().contains(says), "{text}: {report}");
        }
    }

    #[test]
    fn bounds_of_a_run_are_shown_with_their_defaults() {
        let config = parse("runs: {agents: 7}").unwrap();
        let (limits, yaml) = (config.runs.limits(), config.runs.setting().to_yaml());
        assert_eq!((limits.agents, limits.working_agents), (7, crate::limits::WORKING_AGENTS));
        for line in ["agents: 7", "working_agents: 128 # at once; others wait; default"] {
            assert!(yaml.lines().any(|found| found == line), "{line}\n{yaml}");
        }
    }
}
