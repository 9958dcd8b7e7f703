//! A component as bytes: bounded reading, the work that it would cause, its imports and exports, and the diagnosis of
//! files that are no component. Nothing is compiled or run.

mod anatomy;
mod complexity;
mod diagnosis;
mod digest;
mod file_reading;
mod survey;

pub use anatomy::Anatomy;
pub use digest::{ComponentBytes, ComponentDigest};
pub use file_reading::{read_bounded, read_inside};
pub use survey::ComponentSurvey;
