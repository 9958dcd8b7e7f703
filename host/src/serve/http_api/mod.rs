//! The HTTP API: runs with their events and questions, sessions, and what the host offers, for programs and for one web
//! page.
//!
//! [`HttpApi`] is a service of the HTTP server, which has checked access before. `docs/serving.md` describes it for
//! clients.
//!
//! - `routes.rs` lists the routes; `api_service.rs` hands each request to the function behind its route.
//! - `run_routes.rs`, `event_routes.rs`, `question_routes.rs`, `session_routes.rs`, `session_event_routes.rs`,
//!   `trigger_routes.rs` and `listing_routes.rs` are these functions.
//! - `request_bodies.rs` and `views.rs` are the JSON that clients send and get, from which `openapi_document.rs` is
//!   generated.
//! - `question_json.rs` is for questions and answers that do not travel over HTTP.
//! - `problem.rs` is a refusal. `idempotency.rs` remembers which runs were started by which keys.
//! - `openai` and `ag_ui` are other protocols in which clients start runs: OpenAI's API, and that of user interfaces.
//!   `conversations` has what both need.
//! - `metrics.rs` counts for Prometheus, and `page.rs` is the web page.

mod ag_ui;
mod api_service;
mod conversations;
mod event_routes;
mod idempotency;
mod listing_routes;
mod metrics;
mod openai;
mod openapi_document;
mod page;
mod problem;
mod question_json;
mod question_routes;
mod request_bodies;
mod routes;
mod run_routes;
mod session_event_routes;
mod session_routes;
#[cfg(test)]
mod tests;
mod trigger_routes;
mod views;

pub use api_service::HttpApi;
pub use question_json::{parse_reply, question_json};
