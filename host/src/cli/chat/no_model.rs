use std::fmt::Write;

use crate::app::{App, key_variables_in_words, local_servers};

/// Returns how to get a model, in at most five lines; `None` if there is one that a config need not name.
pub async fn no_model(app: &App) -> Option<String> {
    if crate::app::key_variables().any(|name| (app.environment)(name).is_some_and(|key| !key.is_empty())) {
        return None;
    }
    let servers = local_servers().await.unwrap_or_default();
    if servers.iter().any(|server| server.models.as_ref().is_ok_and(|models| !models.is_empty())) {
        return None;
    }
    let found = servers.iter().map(|server| match &server.models {
        Ok(_) => format!("{}: runs, without a model", server.name),
        Err(_) => format!("{}: not found", server.name),
    });
    let found = found.collect::<Vec<_>>().join(", ");
    let mut text = String::from("There is no model to talk with yet. One of these gives you one:\n");
    let keys = key_variables_in_words("or");
    let _ = writeln!(text, "  a key in the environment: {keys}");
    let _ = writeln!(text, "  a server on this machine ({found})");
    let _ = writeln!(text, "  a model under `providers` in a config: shelly-host init writes one");
    let _ = writeln!(text, "  to try it out without a model: shelly-host chat --model offline-model");
    Some(text)
}
