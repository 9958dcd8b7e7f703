//! Triggers, which start runs by themselves.

use super::{
    section::SectionDescription,
    shared_settings::time_or,
    wording::{SHOWN_PARAMS_BYTES, digest_of},
};
use crate::{
    config::{
        FileTriggerConfig, TriggerConfig, WebhookConfig, WebhookSecretConfig,
        effective_setting::{is, map, or},
    },
    limits,
    trust::{RiskLevel, quoted},
};

pub(super) fn trigger_section(trigger: &TriggerConfig) -> SectionDescription {
    let TriggerConfig { name, cron, time_zone, missed, webhook, files, agent, task, overlap } = trigger;
    let mut section = SectionDescription::default();
    section.show("name", is(name));
    section.show("cron", is(cron));
    section.show("time_zone", or(time_zone.as_deref(), "UTC", "default"));
    section.show("missed", is(&missed.unwrap_or_default()).noted_if(missed.is_none(), "default"));
    match webhook {
        Some(WebhookConfig { secret: WebhookSecretConfig { env }, signature }) => {
            let signature = is(&signature.clone().unwrap_or_default()).noted_if(signature.is_none(), "default");
            section.show("webhook", map([("secret", map([("env", is(env))])), ("signature", signature)]));
        }
        None => section.show("webhook", is(&())),
    }
    match files {
        Some(FileTriggerConfig { paths, settle }) => {
            section.show("files", map([("paths", is(paths)), ("settle", time_or(*settle, limits::TRIGGER_SETTLE))]));
        }
        None => section.show("files", is(&())),
    }
    section.show("agent", is(agent).noted_if(agent.is_none(), "the one that runs if a request names none"));
    section.show("task", is(task));
    section.show("overlap", is(&overlap.unwrap_or_default()).noted_if(overlap.is_none(), "default"));
    let who = format!("the trigger {}", quoted(name));
    let runner = agent.as_ref().map_or_else(|| "the first agent".to_owned(), |agent| quoted(agent));
    let event = match (webhook, files) {
        (Some(webhook), _) => {
            format!("for webhooks that are signed with the environment variable {}", quoted(&webhook.secret.env))
        }
        (None, Some(files)) => format!("when files of {} change", in_short(&files.paths.join(", "))),
        (None, None) => {
            let (fields, zone) = (cron.as_deref().unwrap_or_default(), time_zone.as_deref().unwrap_or("UTC"));
            format!("at {} in {}", in_short(fields), quoted(zone))
        }
    };
    let line = format!("{who} starts runs of {runner} by itself {event}, if a server has --triggers");
    section.disclose(RiskLevel::Changes, line);
    // Nobody reads the task before it is given.
    section.disclose(RiskLevel::Changes, format!("{who} gives the task {}", in_short(task)));
    section
}

/// Quotes a text. The text may be long and a line must not be: a digest stands for a long one.
fn in_short(text: &str) -> String {
    match text.len() <= SHOWN_PARAMS_BYTES {
        true => quoted(text),
        false => format!("(sha256:{})", digest_of(text)),
    }
}
