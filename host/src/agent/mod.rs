//! The agent: a model, its tools and what stands around them, in a loop until there is an answer.
//!
//! [`Agent::run`] goes through the run middlewares (`runner.rs`), outermost first, into the loop (`react.rs`), and back.

mod effect;
mod middleware;
mod prompt;
mod react;
mod runner;

pub use effect::{Action, Ask, Edit, Effect, Moment, OnFailure, Phase, Step, Wake};
pub use middleware::{AfterDecision, BeforeDecision, Middleware, Outcome};
pub use runner::{Agent, Answer, RunError};
