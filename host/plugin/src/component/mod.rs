//! A component as bytes: bounded reading, the work that it would cause, its imports and exports, and the diagnosis of
//! files that are no component. Nothing is compiled or run.

mod anatomy;
mod complexity;
mod component_bytes;
mod diagnosis;
mod file_reading;
mod survey;

pub use anatomy::Anatomy;
pub use component_bytes::ComponentBytes;
pub use file_reading::{read_bounded, read_inside};
pub use survey::ComponentSurvey;
