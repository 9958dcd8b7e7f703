//! Observation of an attack from outside: its own word does not count where the host can check.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    attack::{Attack, AttackVerdict},
    baseline::LOOKUP,
    fixture::{AttackFixture, ESCAPED},
};
use crate::{
    chat::{Chat, Part, Role},
    error::acts_on_terminal,
    event::{Event, PluginCallOutcome},
    limits,
};

/// Formats an event for people as the host does; `None` if the host does not show it.
pub type EventFormatter = Arc<dyn Fn(&Event) -> Option<String> + Send + Sync>;

/// The observations of one attack.
#[derive(Default)]
pub struct AttackObserver {
    pub escapes: Vec<String>,
    reported: BTreeSet<String>,
    outcomes: BTreeSet<&'static str>,
    /// The number of calls that returned, by function.
    came_back: BTreeMap<&'static str, usize>,
    was_asked: bool,
    failure: Option<String>,
    longest: Duration,
    cpu: Duration,
    memory: usize,
    log_entries: usize,
}

impl AttackObserver {
    /// Checks one event.
    pub fn look(&mut self, attack: &Attack, stage: &AttackFixture, event: &Event, show: &EventFormatter) {
        match event {
            // The host itself emitted this.
            Event::RunStarted { .. } => return,
            Event::MessageAdded { role: Role::System | Role::User, .. } => {}
            Event::PluginCall { plugin, function, outcome, duration, cpu, memory, .. } if **plugin == *attack.name => {
                self.outcomes.insert(outcome.name());
                *self.came_back.entry(function.name()).or_default() += usize::from(*outcome == PluginCallOutcome::Ok);
                self.longest = self.longest.max(*duration);
                self.cpu = self.cpu.max(*cpu);
                self.memory = self.memory.max(*memory);
            }
            Event::PluginLog { message, .. } => {
                self.log_entries += 1;
                self.must(message.len() <= limits::LOG_ENTRY_BYTES, "a log entry exceeds its size limit");
            }
            Event::EffectRefused { reason, .. } | Event::MiddlewareFailed { reason, .. } => {
                self.must(reason.len() <= limits::ERROR_BYTES, "an event exceeds its size limit");
            }
            _ => {}
        }
        if let Event::MiddlewareFailed { reason, .. } = event {
            self.failure.get_or_insert_with(|| reason.clone());
        }
        if let Ok(json) = serde_json::to_string(event) {
            self.look_at(attack, stage, &json);
        }
        if let Some(line) = show(event)
            && line.chars().any(|c| acts_on_terminal(c) && c != '\n')
        {
            self.must(false, "the output contains terminal control sequences");
        }
    }

    /// Checks a text that came from the attack.
    pub fn look_at(&mut self, attack: &Attack, stage: &AttackFixture, text: &str) {
        for secret in stage.leaks(attack, text) {
            self.must(false, &format!("the output contains a secret: {secret}"));
        }
        self.must(!text.contains(ESCAPED), "the attack reports that it succeeded");
    }

    /// Checks the question that a person is asked about a call of [`LOOKUP`].
    pub fn look_at_question(&mut self, attack: &Attack, stage: &AttackFixture, subject: &str, detail: &str) {
        self.was_asked = true;
        self.look_at(attack, stage, subject);
        self.look_at(attack, stage, detail);
        self.must(subject.len() <= 4 * limits::QUESTION_LABEL_BYTES, "a question exceeds its size limit");
        let most = limits::PERMISSION_DETAIL_CHARS + limits::CONFORMANCE_DETAIL_CHARS;
        self.must(detail.chars().count() <= most, "a question exceeds its size limit");
        self.must(detail.ends_with(&format!("\n{LOOKUP} {{}}")), "a question does not show the call that it is about");
    }

    /// Returns the first failure of a middleware.
    pub fn failure(&self) -> Option<&String> {
        self.failure.as_ref()
    }

    /// Returns `true` if a person was asked.
    pub fn was_asked(&self) -> bool {
        self.was_asked
    }

    /// Returns the number of calls of this function that returned.
    pub fn came_back(&self, function: &str) -> usize {
        self.came_back.get(function).copied().unwrap_or_default()
    }

    /// Checks the new messages of the conversation after the run.
    pub fn look_into(&mut self, attack: &Attack, stage: &AttackFixture, chat: &Chat) {
        let (before, now) = (stage.chat().snapshot(), chat.snapshot());
        let is_new = |parts: &Vec<Part>| !before.iter().any(|entry| entry.message.parts == *parts);
        for entry in now.iter().filter(|entry| is_new(&entry.message.parts)) {
            for result in entry.message.tool_results() {
                // The sentence about what was cut is included.
                let most = limits::TOOL_RESULT_CHARS + limits::CONFORMANCE_DETAIL_CHARS;
                self.must(result.text().chars().count() <= most, "a result exceeds the size limit for models");
            }
            if let Ok(json) = serde_json::to_string(&*entry.message) {
                self.look_at(attack, stage, &json);
            }
        }
        self.must(now.bytes() <= limits::CHAT_BYTES, "the conversation exceeds its size limit");
    }

    /// Returns the peak memory of its largest call, in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Returns the processor time of its longest call.
    pub fn cpu(&self) -> Duration {
        self.cpu
    }

    /// Checks its calls against the limits of one call: wall time, processor time, memory. Returns all violations.
    pub fn of_calls(&mut self, time: Duration, cpu: Duration, memory: usize) -> Vec<String> {
        let (longest, most_cpu) = (self.longest, self.cpu);
        self.must(
            most_cpu <= cpu + limits::CONFORMANCE_CPU_SLACK,
            &format!("a call used {most_cpu:?} of CPU time, the limit is {cpu:?}"),
        );
        self.must(
            longest <= time + limits::CONFORMANCE_SLACK,
            &format!("a call took {longest:?}, the limit is {time:?}"),
        );
        self.must(self.memory <= memory, "the memory limit was exceeded");
        let most = (limits::LOG_ENTRIES as usize + 1) * limits::CONFORMANCE_CALLS as usize;
        self.must(self.log_entries <= most, "the log has more entries than allowed");
        std::mem::take(&mut self.escapes)
    }

    /// Returns the worst end of its calls; `None` if no call failed in one of these ways.
    pub fn worst_call(&self) -> Option<AttackVerdict> {
        [("timeout", AttackVerdict::TimedOut), ("limit", AttackVerdict::Limited), ("trap", AttackVerdict::Trapped)]
            .into_iter()
            .find(|(outcome, _)| self.outcomes.contains(outcome))
            .map(|(_, verdict)| verdict)
    }

    fn must(&mut self, ok: bool, otherwise: &str) {
        if !ok && self.reported.insert(otherwise.to_owned()) {
            self.escapes.push(otherwise.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        conformance::AttackSuite,
        event::{CalledFunction, LogLevel},
    };

    #[test]
    fn observer_reports_violations_in_events() {
        let suite = AttackSuite::embedded().unwrap();
        let attack = suite.attacks().iter().find(|attack| attack.name == "tool-loop").unwrap();
        let stage = AttackFixture::new(attack).unwrap();
        let (time, memory) = (limits::CONFORMANCE_CALL_TIME, 1 << 20);
        let used = |duration, cpu, memory| Event::PluginCall {
            agent: "victim".into(),
            plugin: "tool-loop".into(),
            function: CalledFunction::ToolCall,
            outcome: PluginCallOutcome::Ok,
            duration,
            cpu,
            memory,
            host_calls: 0,
            imports: Vec::new(),
            bytes_in: 0,
            bytes_out: 0,
            given: Default::default(),
        };
        let call = |duration, memory| used(duration, Duration::ZERO, memory);
        let log = |message: &str| Event::PluginLog {
            agent: "victim".into(),
            plugin: "tool-loop".into(),
            level: LogLevel::Info,
            message: message.into(),
        };
        let secret = stage.other_settings()["key"].as_str().unwrap().to_owned();
        let show: EventFormatter = Arc::new(|event| match event {
            Event::PluginLog { message, .. } => Some(message.clone()),
            _ => None,
        });
        for (event, says) in [
            (call(time, memory), None),
            (call(time + limits::CONFORMANCE_SLACK * 2, memory), Some("a call took 20s, the limit is 10s")),
            (used(time, time + limits::CONFORMANCE_CPU_SLACK, memory), None),
            (
                used(time, time + limits::CONFORMANCE_CPU_SLACK * 2, memory),
                Some("a call used 11s of CPU time, the limit is 10s"),
            ),
            (call(time, memory + 1), Some("the memory limit was exceeded")),
            (log("plain"), None),
            (log(&"x".repeat(limits::LOG_ENTRY_BYTES + 1)), Some("a log entry exceeds its size limit")),
            (log("a\u{1b}[2J"), Some("the output contains terminal control sequences")),
            (log(ESCAPED), Some("the attack reports that it succeeded")),
            (log(&secret), Some("the output contains a secret: the settings of another plugin")),
        ] {
            let mut seen = AttackObserver::default();
            seen.look(attack, &stage, &event, &show);
            assert_eq!(seen.of_calls(time, time, memory), says.map(str::to_owned).as_slice(), "{event:?}");
        }
        let mut seen = AttackObserver::default();
        for _ in 0..=(limits::LOG_ENTRIES + 1) * limits::CONFORMANCE_CALLS {
            seen.look(attack, &stage, &log("again"), &show);
        }
        assert_eq!(seen.of_calls(time, time, memory), ["the log has more entries than allowed"]);
    }
}
