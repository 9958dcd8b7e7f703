//! The telemetry that the runs of an app share.

use crate::telemetry::Telemetry;

/// The telemetry of an app, with the warnings about its settings.
pub(super) struct AppTelemetry {
    pub(super) telemetry: Telemetry,
    pub(super) warnings: Vec<String>,
}
