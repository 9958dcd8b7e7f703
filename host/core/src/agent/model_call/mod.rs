//! Requests to a model: within the budget, through the middleware around requests, paid for.

mod completion;
mod model_middleware_chain;
mod model_query;
mod model_sampling;
mod refused_tool;
mod window_check;

pub(crate) use completion::ModelRequest;
pub(crate) use model_middleware_chain::ask;
pub(crate) use model_query::ask_for;
pub use model_sampling::sample;
