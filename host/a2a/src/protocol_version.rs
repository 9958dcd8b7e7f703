use crate::{A2aError, A2aErrorKind};

/// The version of the protocol that this host speaks.
pub const PROTOCOL_VERSION: &str = "1.0";

/// The header, or parameter of the query, in which a client says its version.
pub const VERSION_HEADER: &str = "a2a-version";

/// Checks the version that a client says. Its third number does not matter. A client that says none speaks 0.3.
///
/// # Errors
///
/// [`A2aErrorKind::VersionNotSupported`] for any other version than [`PROTOCOL_VERSION`].
pub fn check_version(said: Option<&str>) -> Result<(), A2aError> {
    let said = said.map(str::trim).filter(|said| !said.is_empty()).unwrap_or("0.3");
    if is_spoken(said) {
        return Ok(());
    }
    let shown: String = said.chars().filter(|c| c.is_ascii_graphic()).take(16).collect();
    let message = format!(
        "version {shown} of the protocol is not supported; send the header `A2A-Version: {PROTOCOL_VERSION}`, and requests \
         of that version"
    );
    let error = A2aError::new(A2aErrorKind::VersionNotSupported, message);
    Err(error.with_fact("requestedVersion", shown).with_fact("supportedVersions", PROTOCOL_VERSION))
}

/// Returns `true` if this host speaks a version.
pub fn is_spoken(version: &str) -> bool {
    let mut numbers = version.trim().split('.');
    let is_patch = |patch: &str| !patch.is_empty() && patch.bytes().all(|byte| byte.is_ascii_digit());
    numbers.next() == Some("1")
        && numbers.next() == Some("0")
        && numbers.next().is_none_or(is_patch)
        && numbers.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_version_one_is_spoken() {
        for (said, is_fine) in [
            (Some("1.0"), true),
            (Some(" 1.0 "), true),
            (Some("1.0.7"), true),
            (Some("0.3"), false),
            (Some("1"), false),
            (Some("1.1"), false),
            (Some("1.0."), false),
            (Some("1.0.x"), false),
            (Some("10.0"), false),
            (Some("1.0.0.0"), false),
            (Some(""), false),
            (None, false),
        ] {
            let checked = check_version(said);
            assert_eq!(checked.is_ok(), is_fine, "{said:?}");
            if let Err(error) = checked {
                assert_eq!(error.kind, A2aErrorKind::VersionNotSupported);
                assert!(error.facts.contains(&("supportedVersions", "1.0".into())), "{error:?}");
            }
        }
        assert!(check_version(None).unwrap_err().message.starts_with("version 0.3 "));
    }
}
