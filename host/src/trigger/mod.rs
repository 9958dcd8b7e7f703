//! Triggers, which start runs by themselves: when they fire, and which task they give. No I/O.
//!
//! - `cron_schedule.rs`: times in a time zone.
//! - `webhook_verifier.rs`: signatures of webhooks.
//! - `path_pattern.rs`: files whose changes fire a trigger.
//! - `task_template.rs`: tasks with values of a firing.

mod cron_schedule;
mod path_pattern;
mod task_template;
mod webhook_verifier;

pub use cron_schedule::{CronSchedule, CronScheduleError};
pub use path_pattern::{PathPattern, PathPatternError};
pub use task_template::{
    FiringValues, RenderedTask, TaskTemplate, TaskTemplateError, TriggerSource, body_value, webhook_values,
};
pub use webhook_verifier::{
    CodeEncoding, VerifiedDelivery, WebhookHead, WebhookRefusal, WebhookScheme, WebhookSecretError, WebhookVerifier,
};
