//! The agent: a model, its tools and what stands around them, in a loop until there is an answer.
//!
//! [`Agent::run`] goes through the run middlewares, outermost first, into the loop of `react.rs`, and back.

mod agent;
mod effect;
mod middleware;
mod prompt;
mod react;

pub use agent::{Agent, Answer, RunError};
pub use effect::{Action, Ask, Edit, Effect, Moment, OnFailure, Phase, Step, Wake};
pub use middleware::{AfterDecision, BeforeDecision, Middleware, Outcome};
