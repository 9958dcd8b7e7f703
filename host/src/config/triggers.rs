//! The key `triggers`: what starts runs by itself.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::BoundedDuration;
use crate::{
    error::{ErrorKind, Report},
    limits,
    trigger::{
        CodeEncoding, CronSchedule, CronScheduleError, PathPattern, PathPatternError, TaskTemplate, TaskTemplateError,
        TriggerSource, WebhookScheme,
    },
};

/// A trigger, which starts runs by itself in a server that is started with `--triggers`. It has one of `cron`, `webhook` and
/// `files`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerConfig {
    /// The name: 1 to 64 of `a-z A-Z 0-9 _ -`.
    pub name: String,
    /// The times at which it fires, as the five fields of cron.
    #[serde(default)]
    pub cron: Option<String>,
    /// The time zone of `cron`, such as `Europe/Berlin`; `None`: UTC.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// The treatment of times of `cron` that pass while no server works; `None`: they are skipped.
    #[serde(default)]
    pub missed: Option<MissedTimes>,
    /// The webhook that fires it, at `/hooks/NAME`.
    #[serde(default)]
    pub webhook: Option<WebhookConfig>,
    /// The files whose changes fire it.
    #[serde(default)]
    pub files: Option<FileTriggerConfig>,
    /// The agent or team that gets the task; `None`: the one that runs if a request names none.
    #[serde(default)]
    pub agent: Option<String>,
    /// The task. `{{time}}` and other paths in it stand for values of the firing.
    pub task: String,
    /// The treatment of a firing while a run of the trigger is at work; `None`: it is skipped.
    #[serde(default)]
    pub overlap: Option<TriggerOverlap>,
}

/// The treatment of times that pass while no server works, or while the machine sleeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedTimes {
    /// Nothing is done for them.
    #[default]
    Skip,
    /// The trigger fires once for all of them.
    Once,
}

/// The treatment of a firing while a run of the trigger is at work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TriggerOverlap {
    /// Nothing is done for it.
    #[default]
    Skip,
    /// The firing waits, with its values, until the run has ended. One waits; a further one is skipped.
    Queue,
    /// The firing starts a run too, up to this number at once; a further one is skipped.
    Parallel(u64),
}

/// A webhook.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// The secret that the sender has too.
    pub secret: WebhookSecretConfig,
    /// The way in which the sender signs; `None`: as the Standard Webhooks specification says.
    #[serde(default)]
    pub signature: Option<WebhookSignatureConfig>,
}

/// The place of a webhook's secret.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookSecretConfig {
    /// The environment variable that holds it.
    pub env: String,
}

/// The way in which the sender of a webhook signs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookSignatureConfig {
    /// An id, a time and the body are signed, by the Standard Webhooks specification.
    #[default]
    Standard,
    /// The body is signed, in the header that GitHub sends.
    Github,
    /// HMAC-SHA-256 of the body in a header of its own.
    HmacSha256(HmacHeaderConfig),
}

/// A header with the HMAC-SHA-256 of the body.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HmacHeaderConfig {
    /// The name of the header.
    pub header: String,
    /// The text before the code.
    #[serde(default)]
    pub prefix: String,
    /// The form of the code.
    #[serde(default)]
    pub encoding: HmacEncoding,
    /// The header with an id that a repeated delivery has again.
    #[serde(default)]
    pub delivery: Option<String>,
}

/// The form of an authentication code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HmacEncoding {
    /// Hexadecimal digits.
    #[default]
    Hex,
    /// Base64.
    Base64,
}

/// Files whose changes fire a trigger.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileTriggerConfig {
    /// Patterns of paths below the root, such as `docs/**`.
    pub paths: Vec<String>,
    /// The time for which the files must stay the same; `None`: 2 s.
    #[serde(default, with = "BoundedDuration::<{ limits::TRIGGER_SETTLE_SECONDS_CEILING }>")]
    pub settle: Option<Duration>,
}

impl TriggerConfig {
    /// Returns the event that fires it. A config that was checked has one.
    pub fn source(&self) -> TriggerSource {
        match (&self.webhook, &self.files) {
            (Some(_), _) => TriggerSource::Webhook,
            (None, Some(_)) => TriggerSource::Files,
            (None, None) => TriggerSource::Cron,
        }
    }

    /// Returns the schedule of `cron`.
    ///
    /// # Errors
    ///
    /// [`CronScheduleError`].
    pub fn schedule(&self) -> Result<CronSchedule, CronScheduleError> {
        CronSchedule::parse(self.cron.as_deref().unwrap_or_default(), self.time_zone.as_deref())
    }

    /// Returns the task.
    ///
    /// # Errors
    ///
    /// [`TaskTemplateError`].
    pub fn template(&self) -> Result<TaskTemplate, TaskTemplateError> {
        TaskTemplate::parse(&self.task, self.source())
    }

    /// Checks what serde cannot express.
    pub(super) fn check(&self) -> Result<(), Report> {
        let is_name = (1..=64).contains(&self.name.len())
            && self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if !is_name {
            let message = format!("triggers: `{}` is not a valid name", self.name.escape_debug());
            return Err(Report::new(ErrorKind::Usage, message).hint("use 1 to 64 characters of a-z, A-Z, 0-9, _ and -"));
        }
        let wrong = |key: &str, why: String, hint: &str| {
            Report::new(ErrorKind::Usage, format!("triggers.{}{key}: {why}", self.name)).hint(hint)
        };
        let kinds =
            [("cron", self.cron.is_some()), ("webhook", self.webhook.is_some()), ("files", self.files.is_some())];
        let kinds: Vec<_> = kinds.into_iter().filter(|(_, is_there)| *is_there).map(|(key, _)| key).collect();
        match kinds[..] {
            [_] => {}
            [] => return Err(wrong("", "nothing fires it".into(), "set `cron`, `webhook` or `files`")),
            [one, other, ..] => {
                let why = format!("`{one}` and `{other}` are both set");
                return Err(wrong("", why, "make two triggers of it"));
            }
        }
        if self.cron.is_some() {
            self.schedule().map_err(|error| match error {
                CronScheduleError::Zone { .. } => {
                    wrong(".time_zone", error.to_string(), "write a name of the IANA database, such as Europe/Berlin")
                }
                error => wrong(".cron", error.to_string(), "write minute, hour, day, month and weekday: `0 3 * * *`"),
            })?;
        } else if let Some(key) = self.time_zone.as_ref().map(|_| ".time_zone").or(self.missed.map(|_| ".missed")) {
            return Err(wrong(key, "only a trigger with `cron` has it".into(), "remove the key"));
        }
        self.webhook.as_ref().map_or(Ok(()), |webhook| webhook.check(&wrong))?;
        self.files.as_ref().map_or(Ok(()), |files| files.check(&wrong))?;
        let most = limits::TRIGGER_PARALLEL_CEILING;
        match self.overlap {
            Some(TriggerOverlap::Parallel(count)) if !(1..=most).contains(&count) => {
                return Err(wrong(
                    ".overlap",
                    format!("`parallel` must be 1 to {most}"),
                    "write `overlap: {parallel: 2}`",
                ));
            }
            Some(TriggerOverlap::Queue | TriggerOverlap::Parallel(_)) if self.files.is_some() => {
                // The changes of a run would fire it again.
                let hint = "remove the key: changes while a run is at work fire no other";
                return Err(wrong(".overlap", "a trigger with `files` skips".into(), hint));
            }
            _ => {}
        }
        let hint = "write `{{time}}`, or for a webhook `{{body.name}}`; docs/triggers.md lists the values";
        self.template().map(drop).map_err(|error| wrong(".task", error.to_string(), hint))
    }
}

impl WebhookConfig {
    /// Returns the way in which the sender signs.
    pub fn scheme(&self) -> WebhookScheme {
        match self.signature.clone().unwrap_or_default() {
            WebhookSignatureConfig::Standard => WebhookScheme::Standard,
            WebhookSignatureConfig::Github => WebhookScheme::Github,
            WebhookSignatureConfig::HmacSha256(HmacHeaderConfig { header, prefix, encoding, delivery }) => {
                let encoding = match encoding {
                    HmacEncoding::Hex => CodeEncoding::Hex,
                    HmacEncoding::Base64 => CodeEncoding::Base64,
                };
                WebhookScheme::Header { name: header, prefix, encoding, delivery }
            }
        }
    }

    fn check(&self, wrong: &dyn Fn(&str, String, &str) -> Report) -> Result<(), Report> {
        let name = &self.secret.env;
        if name.is_empty() || name.contains(['=', '\0', '$', '{']) {
            let why = format!("`{}` is not the name of an environment variable", name.escape_debug());
            return Err(wrong(".webhook.secret.env", why, "write only the name, such as HOOK_SECRET"));
        }
        let Some(WebhookSignatureConfig::HmacSha256(own)) = &self.signature else { return Ok(()) };
        let is_header = |name: &String| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        match [Some(&own.header), own.delivery.as_ref()].into_iter().flatten().find(|name| !is_header(name)) {
            None => Ok(()),
            Some(name) => {
                let why = format!("`{}` is not the name of a header", name.escape_debug());
                Err(wrong(".webhook.signature", why, "write a name such as x-signature"))
            }
        }
    }
}

impl FileTriggerConfig {
    /// Returns the patterns.
    ///
    /// # Errors
    ///
    /// The first [`PathPatternError`], with the pattern that it is about.
    pub fn patterns(&self) -> Result<Vec<PathPattern>, (&str, PathPatternError)> {
        self.paths.iter().map(|path| PathPattern::parse(path).map_err(|error| (path.as_str(), error))).collect()
    }

    fn check(&self, wrong: &dyn Fn(&str, String, &str) -> Report) -> Result<(), Report> {
        const KEY: &str = ".files.paths";
        let most = limits::TRIGGER_PATHS;
        if self.paths.is_empty() || self.paths.len() > most {
            return Err(wrong(KEY, format!("must have 1 to {most} patterns"), "write patterns such as `docs/**`"));
        }
        self.patterns().map(drop).map_err(|(path, error)| {
            wrong(KEY, format!("`{}`: {error}", path.escape_debug()), "write a pattern such as `docs/**` or `*.md`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parse(triggers: &str) -> Result<Config, Report> {
        Config::parse(&format!("agents: [{{name: ada}}]\ntriggers: [{triggers}]"), "/project".into())
    }

    #[test]
    fn triggers_are_parsed() {
        let config = parse(
            "{name: nightly, cron: '0 3 * * *', time_zone: Europe/Berlin, missed: once, agent: ada, task: 'At {{time}}'}, \
             {name: hook, webhook: {secret: {env: HOOK}, signature: github}, task: '{{body.x}}', overlap: {parallel: 3}}, \
             {name: own, task: t, \
             webhook: {secret: {env: HOOK}, signature: {hmac_sha256: {header: x-s, encoding: base64}}}}, \
             {name: watch, files: {paths: ['docs/**'], settle: 5s}, task: '{{files}}'}",
        )
        .unwrap_or_else(|report| panic!("{report:?}"));
        let [nightly, hook, own, watch] = &config.triggers[..] else { panic!("{:?}", config.triggers) };
        assert_eq!((nightly.source(), nightly.missed), (TriggerSource::Cron, Some(MissedTimes::Once)));
        assert!(nightly.schedule().is_ok() && nightly.template().is_ok());
        assert_eq!((hook.source(), hook.overlap), (TriggerSource::Webhook, Some(TriggerOverlap::Parallel(3))));
        assert_eq!(hook.webhook.as_ref().unwrap().scheme(), WebhookScheme::Github);
        let scheme = own.webhook.as_ref().unwrap().scheme();
        assert!(matches!(scheme, WebhookScheme::Header { encoding: CodeEncoding::Base64, .. }), "{scheme:?}");
        assert_eq!(watch.source(), TriggerSource::Files);
        assert_eq!(watch.files.as_ref().unwrap().settle, Some(Duration::from_secs(5)));
    }

    #[test]
    fn unusable_trigger_is_refused_with_reason() {
        let cron = "name: a, cron: '0 3 * * *', task: t";
        let paths = vec!["x"; limits::TRIGGER_PATHS + 1].join(", ");
        let settle = limits::TRIGGER_SETTLE_SECONDS_CEILING + 1;
        for (keys, says) in [
            ("name: 'a b', cron: '0 3 * * *', task: t".to_owned(), "triggers: `a b` is not a valid name"),
            ("name: a, task: t".into(), "triggers.a: nothing fires it"),
            (format!("{cron}, files: {{paths: [x]}}"), "triggers.a: `cron` and `files` are both set"),
            ("name: a, cron: '0 3 * *', task: t".into(), "triggers.a.cron: it has 4 fields, not 5"),
            (format!("{cron}, time_zone: Mars/Base"), "triggers.a.time_zone: there is no time zone `Mars/Base`"),
            (
                "name: a, files: {paths: [x]}, missed: once, task: t".into(),
                "triggers.a.missed: only a trigger with `cron`",
            ),
            (format!("{cron}, agent: bob"), "there is no agent `bob`"),
            ("name: a, cron: '0 3 * * *', task: '{{body.x}}'".into(), "triggers.a.task: there is no value `body`"),
            ("name: a, webhook: {secret: {env: '$X'}}, task: t".into(), "triggers.a.webhook.secret.env: `$X` is not"),
            (
                "name: a, webhook: {secret: {env: X}, signature: {hmac_sha256: {header: 'a b'}}}, task: t".into(),
                "triggers.a.webhook.signature: `a b` is not the name of a header",
            ),
            ("name: a, webhook: {secret: {env: X}, signature: md5}, task: t".into(), "md5"),
            (
                "name: a, files: {paths: ['../x']}, task: t".into(),
                "triggers.a.files.paths: `../x`: a pattern is a path below",
            ),
            ("name: a, files: {paths: []}, task: t".into(), "triggers.a.files.paths: must have 1 to 32 patterns"),
            (format!("name: a, files: {{paths: [{paths}]}}, task: t"), "must have 1 to 32 patterns"),
            (format!("name: a, files: {{paths: [x], settle: {settle}s}}, task: t"), "must be at most 10m"),
            (
                "name: a, files: {paths: [x]}, overlap: queue, task: t".into(),
                "triggers.a.overlap: a trigger with `files` skips",
            ),
            (format!("{cron}, overlap: {{parallel: 9}}"), "triggers.a.overlap: `parallel` must be 1 to 8"),
            (format!("{cron}}}, {{{cron}"), "triggers"),
        ] {
            let report = parse(&format!("{{{keys}}}")).unwrap_err();
            let shown = format!("{report:?}");
            assert!(shown.contains(says), "{keys}\n{shown}");
        }
        let many = |count: usize| {
            let one = |n: usize| format!("{{name: t{n}, cron: '0 3 * * *', task: t}}");
            parse(&(0..count).map(one).collect::<Vec<_>>().join(", "))
        };
        assert!(many(limits::TRIGGERS).is_ok());
        let report = many(limits::TRIGGERS + 1).unwrap_err();
        assert!(report.message.contains("triggers: there are 65, the maximum is 64"), "{report}");
    }
}
