use shelly_core::error::Fault;

/// Shortens a text to at most `bytes` bytes, between characters, with a mark where it was cut.
pub fn bounded(mut text: String, bytes: usize) -> String {
    const MARK: &str = "…";
    if text.len() > bytes {
        let end = bytes.saturating_sub(MARK.len());
        let end = (0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

/// Returns the fault for a value of a guest that is larger than it may be.
pub(super) fn too_large(what: &str, bytes: usize, most: usize) -> Fault {
    Fault::TooLarge { message: format!("{what} has {bytes} bytes, the maximum is {most}") }
}
