/// Returns a server's text, trimmed and cut, for use in an error message.
pub(super) fn shown(text: &str) -> String {
    shelly_core::error::cut(text.trim(), shelly_core::limits::ERROR_BYTES / 4)
}
