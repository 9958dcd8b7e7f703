use crate::event::new_id;

/// Returns the id of a run that begins now.
pub fn run_id() -> String {
    new_id("run")
}
