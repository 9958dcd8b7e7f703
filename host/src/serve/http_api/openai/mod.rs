//! Agents behind OpenAI's API, for clients and chat pages that speak it: `/v1/models`, `/v1/chat/completions` and
//! `/v1/responses`. `docs/openai-api.md` describes it for people.
//!
//! The name of a model is that of an agent or team. A request starts one run, whose usage is that of all agents in it.
//!
//! - `openai_routes.rs` answers requests; `openai_error.rs` is a refusal, in OpenAI's form.
//! - `parameter_rules.rs` lists the parameters that are refused.
//! - `chat_request.rs` and `responses_request.rs` are what clients send, `request_parts.rs` what both have in common.
//! - `chat_reply.rs` and `responses_reply.rs` are what clients get, whole; `chat_stream.rs` and `responses_stream.rs`,
//!   in pieces.
//! - `stored_responses.rs` has responses that are asked for again, cancelled or deleted.
//! - `run_ending.rs` says in the words of the API how a run has ended. `response_id.rs` names the session of a
//!   response.

mod chat_reply;
mod chat_request;
mod chat_stream;
mod openai_error;
mod openai_routes;
mod parameter_rules;
mod request_parts;
mod response_id;
mod responses_reply;
mod responses_request;
mod responses_stream;
mod run_ending;
mod stored_responses;
#[cfg(test)]
mod tests;

pub(super) use openai_error::OpenAiError;
pub(super) use openai_routes::{OPENAI_PREFIX, answer};
pub(super) use stored_responses::StoredResponses;
