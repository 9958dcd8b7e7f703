use crate::{error::cut, limits};

/// Shortens an invalid name for an error message.
pub(super) fn shown_name(name: &str) -> String {
    cut(name, limits::NAME_SHOWN_CHARS)
}
