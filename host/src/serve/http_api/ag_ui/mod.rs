//! Runs for user interfaces that speak the AG-UI protocol: `POST /ag-ui/AGENT` starts a run and streams its events.
//! `docs/openai-api.md` describes it for people.
//!
//! - `ag_ui_routes.rs` answers requests, and `ag_ui_stream.rs` sends the events of a run.
//! - `run_agent_input.rs` is what clients send.
//! - `ag_ui_event.rs` has the events of the protocol, and `event_translation.rs` makes them of those of a run.

mod ag_ui_event;
mod ag_ui_routes;
mod ag_ui_stream;
mod event_translation;
mod run_agent_input;
#[cfg(test)]
mod tests;

pub(super) use ag_ui_routes::{AG_UI_PREFIX, start};
