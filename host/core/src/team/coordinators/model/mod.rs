//! A coordinator that asks a model which members work next.
//!
//! Each decision is one request. It is built anew from the shared conversation and a small state, and contains no earlier
//! requests: nothing is shown twice, and no vendor's rules for replies that are sent back (thoughts, signatures, ids of
//! calls) apply. Results of the model's lookup tools are therefore in the next request as text.

mod coordinator_lookup;
mod coordinator_prompt;
mod coordinator_state;
mod coordinator_tools;
mod model_coordinator;
mod model_coordinator_options;
mod model_decision;

pub use model_coordinator::ModelCoordinator;
pub use model_coordinator_options::ModelCoordinatorOptions;
