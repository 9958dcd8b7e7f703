use std::time::SystemTime;

use serde_json::{Value, json};

use super::served_trigger::utc_time;
use crate::{
    config::{Config, unknown},
    error::{ErrorKind, Report, cut, legible},
    limits,
    trigger::{FiringValues, RenderedTask, TriggerSource, body_value, webhook_values},
};

/// The payload of a firing that a person tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialPayload<'a> {
    /// The place that it was read from, for messages.
    pub place: &'a str,
    /// The body of a webhook, or the names of changed files as a JSON list.
    pub bytes: &'a [u8],
}

/// The task that a firing makes, for a person who tries a trigger without a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialFiring {
    /// The agent or team that gets the task; `None`: the one that runs if a request names none.
    pub agent: Option<String>,
    /// The task.
    pub task: String,
    /// The paths in the task for which the firing has no value.
    pub missing: Vec<String>,
    /// The reason why no part of the payload is there: it is no JSON. It names the place, the line and the column.
    pub problem: Option<String>,
}

impl TrialFiring {
    /// Fires a trigger of a config at this time. `event` is the kind of event that a webhook names. Nothing is signed, and
    /// no state is changed.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such trigger, or it does not take these values.
    pub fn new(
        config: &Config,
        name: &str,
        (payload, event): (Option<TrialPayload<'_>>, Option<&str>),
        now: SystemTime,
    ) -> Result<Self, Report> {
        let none = || match config.triggers.is_empty() {
            true => Report::new(ErrorKind::Usage, "the config has no triggers").hint("add one under `triggers`"),
            false => unknown("trigger", name, config.triggers.iter().map(|trigger| trigger.name.as_str())),
        };
        let trigger = config.triggers.iter().find(|trigger| trigger.name == name).ok_or_else(none)?;
        let wrong = |key: &str, error: &dyn std::fmt::Display| {
            Report::new(ErrorKind::Usage, format!("triggers.{name}.{key}: {error}"))
        };
        let outside = match (trigger.source(), payload, event) {
            (TriggerSource::Files, Some(payload), None) => json!({ "files": payload.files(name)? }),
            (source, payload, event) => {
                outside_values(name, source, payload.map(|payload| body_value(payload.bytes)), event)?
            }
        };
        let time = match trigger.source() {
            TriggerSource::Cron => trigger.schedule().map_err(|error| wrong("cron", &error))?.shown(now),
            TriggerSource::Webhook | TriggerSource::Files => utc_time(now),
        };
        let template = trigger.template().map_err(|error| wrong("task", &error))?;
        let RenderedTask { text, missing } = template.render(&FiringValues { time, trigger: name.to_owned(), outside });
        let wants_parts = missing.iter().any(|path| path.starts_with("body."));
        let problem = payload.filter(|_| wants_parts).and_then(TrialPayload::not_json);
        Ok(Self { agent: trigger.agent.clone(), task: text, missing, problem })
    }
}

impl TrialPayload<'_> {
    /// Returns the names of changed files, for the trigger `name`.
    fn files(self, name: &str) -> Result<Vec<String>, Report> {
        serde_json::from_slice(self.bytes).map_err(|error| {
            let what = format!("{}: the payload of the trigger `{name}` is no list of files", self.position(&error));
            Report::new(ErrorKind::Usage, what).cause(reason(&error)).hint(LIST_OF_FILES)
        })
    }

    /// Returns the sentence on a payload that is no JSON; `None` if it is JSON.
    fn not_json(self) -> Option<String> {
        let error = serde_json::from_slice::<Value>(self.bytes).err()?;
        let (position, reason) = (self.position(&error), reason(&error));
        Some(format!("{position}: the payload is no JSON ({reason}), so it is a text without parts"))
    }

    /// Returns the place of a mistake: `issue.json, line 3, column 5`.
    fn position(self, error: &serde_json::Error) -> String {
        // The parser counts the columns that it has read, which are none at the beginning of a line.
        format!("{}, line {}, column {}", self.place, error.line().max(1), error.column().max(1))
    }
}

/// Returns what a parser objects to, without the position.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    cut(&legible(text.split(" at line ").next().unwrap_or_default()), limits::FAILURE_SHOWN_CHARS)
}

/// The mend of a payload that is no list of files.
const LIST_OF_FILES: &str = "write it as JSON: [\"docs/a.md\", \"docs/b.md\"]";

/// Returns the values from outside that a person gives, as the trigger `name` of this kind has them.
///
/// # Errors
///
/// A [`Report`] if the trigger does not take these values.
pub(super) fn outside_values(
    name: &str,
    source: TriggerSource,
    payload: Option<Value>,
    event: Option<&str>,
) -> Result<Value, Report> {
    let wrong = |what: String, hint: &str| Err(Report::new(ErrorKind::Usage, what).hint(hint));
    match (source, payload, event) {
        (TriggerSource::Webhook, payload, event) => Ok(webhook_values(payload, event, None)),
        (_, None, None) => Ok(Value::Null),
        (TriggerSource::Files, Some(payload), None) => match serde_json::from_value::<Vec<String>>(payload) {
            Ok(names) => Ok(json!({ "files": names })),
            Err(error) => {
                let what = format!("the payload of the trigger `{name}` is no list of files: {error}");
                wrong(what, LIST_OF_FILES)
            }
        },
        (TriggerSource::Files, _, Some(_)) => {
            wrong(format!("the trigger `{name}` has no webhook, whose event could be named"), "omit the event")
        }
        (TriggerSource::Cron, ..) => {
            wrong(format!("the trigger `{name}` fires at times, and takes no values"), "omit the payload and the event")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn fire(name: &str, payload: Option<&str>, event: Option<&str>) -> Result<TrialFiring, Report> {
        let triggers = "{name: nightly, cron: '0 3 * * *', time_zone: Asia/Tokyo, task: 'At {{time}}.', agent: ada}, \
                        {name: hook, webhook: {secret: {env: HOOK}}, task: '{{event}}: {{body.title}}, {{body.no}}'}, \
                        {name: text, webhook: {secret: {env: HOOK}}, task: '{{body}}'}, \
                        {name: docs, files: {paths: ['docs/**']}, task: '{{files}}'}";
        let config = format!("agents: [{{name: ada}}]\ntriggers: [{triggers}]");
        let config = Config::parse(&config, "/project".into()).unwrap_or_else(|report| panic!("{report:?}"));
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let payload = payload.map(|text| TrialPayload { place: "p.json", bytes: text.as_bytes() });
        TrialFiring::new(&config, name, (payload, event), now)
    }

    #[test]
    fn task_has_the_values_that_are_given() {
        let nightly = fire("nightly", None, None).unwrap();
        let task = "At 2027-01-15T17:00:00+09:00.".to_owned();
        assert_eq!(nightly, TrialFiring { agent: Some("ada".into()), task, missing: Vec::new(), problem: None });
        let hook = fire("hook", Some(r#"{"title": "Lamp"}"#), Some("issues")).unwrap();
        assert!(hook.task.starts_with("\"issues\": \"Lamp\", \"\"\n"), "{hook:?}");
        assert_eq!((hook.agent, hook.missing), (None, vec!["body.no".to_owned()]));
        assert_eq!(fire("hook", None, None).unwrap().missing, ["event", "body.title", "body.no"]);
        let docs = fire("docs", Some(r#"["docs/a.md"]"#), None).unwrap();
        assert!(docs.task.starts_with("[\"docs/a.md\"]\n") && docs.missing.is_empty(), "{docs:?}");
    }

    #[test]
    fn values_that_a_trigger_does_not_take_are_refused() {
        for (name, payload, event, says) in [
            ("hok", None, None, "there is no trigger `hok`"),
            ("nightly", Some("{}"), None, "fires at times, and takes no values"),
            ("docs", Some("{}"), None, "is no list of files"),
            ("docs", None, Some("push"), "has no webhook"),
        ] {
            let report = fire(name, payload, event).unwrap_err();
            assert!(report.message.contains(says) && report.hint.is_some(), "{report:?}");
        }
    }

    #[test]
    fn payload_that_is_no_json_is_told_with_its_place() {
        let says = "p.json, line 2, column 12: the payload is no JSON (expected value), so it is a text without parts";
        let fired = fire("hook", Some("{\n  \"title\": Lamp\n}"), Some("issues")).unwrap();
        assert_eq!((fired.problem.as_deref(), fired.missing.len()), (Some(says), 2), "{fired:?}");
        assert!(fire("hook", Some(""), None).unwrap().problem.unwrap().starts_with("p.json, line 1, column 1: "));
        assert_eq!(fire("hook", Some("[]"), None).unwrap().problem, None);
        assert_eq!(fire("text", Some("Lamp"), None).unwrap().problem, None, "the text itself is the value");
        for (payload, place) in
            [("[\n1]", "line 2, column 1"), ("[\"a\",", "line 1, column 5"), ("{}", "line 1, column 1")]
        {
            let report = fire("docs", Some(payload), None).unwrap_err();
            assert!(report.message.starts_with(&format!("p.json, {place}: ")) && !report.causes.is_empty(), "{report}");
        }
    }
}
