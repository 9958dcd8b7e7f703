/// The version of the contract that this host implements.
pub const CONTRACT: &str = "0.1.0";
const PACKAGE: &str = "shelly:plugin/";

/// The name of the manifest in a plugin folder.
pub const MANIFEST_FILE: &str = "plugin.toml";

/// Splits the name of an interface of the contract: `shelly:plugin/log@0.1.0` is (`log`, `0.1.0`).
pub fn of_contract(name: &str) -> Option<(&str, &str)> {
    let interface = name.strip_prefix(PACKAGE)?;
    Some(interface.split_once('@').unwrap_or((interface, "")))
}

/// Returns `true` if a version of the contract is compatible with this host's: only the last number may differ.
pub fn is_supported_version(version: &str) -> bool {
    fn series(version: &str) -> Option<&str> {
        version.rsplit_once('.').map(|(series, _)| series)
    }
    series(version) == series(CONTRACT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contract_versions_of_one_series_are_compatible() {
        for (version, speaks_it) in
            [("0.1.0", true), ("0.1.7", true), ("0.2.0", false), ("1.1.0", false), ("", false), ("0.1", false)]
        {
            assert_eq!(is_supported_version(version), speaks_it, "{version}");
        }
    }
}
