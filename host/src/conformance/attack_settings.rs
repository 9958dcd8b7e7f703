use std::{path::Path, time::Duration};

use crate::{
    capability::{Grant, RequestedCapabilities},
    limits,
    plugin::{FolderMount, Limits, PluginSettings, resolved},
};

/// Returns the settings of a plugin that is granted all of `wants`, with `folder` for its files.
pub fn settings(
    wants: &RequestedCapabilities,
    folder: &Path,
    params: &serde_json::Value,
    time: Duration,
) -> PluginSettings {
    let folder = resolved(folder);
    PluginSettings {
        grant: Grant::all_of(wants, folder.clone()),
        mounts: vec![FolderMount { path: folder, name: ".".into() }],
        // The value is valid JSON.
        params: serde_json::value::to_raw_value(params).unwrap_or_default(),
        limits: Limits {
            probe_time: time,
            tool_time: time,
            step_time: time,
            completion_time: time,
            // As many as the host runs at once.
            concurrency: limits::PLUGIN_CALLS,
            ..Limits::default()
        },
        ..PluginSettings::new("victim", "agents.victim.plugins")
    }
}
