//! What is written down of runs, so that they go on when the process that ran them is gone.
//!
//! [`Record`] is all that can be written. Whoever keeps it is a [`Recorder`].

mod record;

pub use record::{Bounds, EffectMemory, Ended, ErrandId, Lost, Mark, Record, Recorder};
