use shelly_core::limits;

/// Returns `true` if this can be the name of a scope (RFC 6749, 3.3).
pub(super) fn is_scope(name: &str) -> bool {
    (1..=limits::OAUTH_SCOPE_BYTES).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// Returns each of these scopes once, in order, at most as many as may be asked for.
pub(super) fn rights<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut rights = Vec::<String>::new();
    for name in names {
        if rights.len() < limits::OAUTH_SCOPES && is_scope(name) && !rights.iter().any(|right| right == name) {
            rights.push(name.into());
        }
    }
    rights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_asked_for_once_and_within_bounds() {
        assert_eq!(rights(["b", "a", "b", "", "c d", "q\"", "e\\", "ü"]), ["b", "a"]);
        let longest = "x".repeat(limits::OAUTH_SCOPE_BYTES);
        assert_eq!(rights([longest.as_str(), &format!("{longest}x")]), [longest.as_str()]);
        let many: Vec<_> = (0..=limits::OAUTH_SCOPES).map(|number| number.to_string()).collect();
        assert_eq!(rights(many.iter().map(String::as_str)).len(), limits::OAUTH_SCOPES);
    }
}
