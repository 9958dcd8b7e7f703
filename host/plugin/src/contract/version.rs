use std::{fmt, str::FromStr};

const PACKAGE: &str = "shelly:plugin/";

/// The name of the manifest in a plugin folder.
pub const MANIFEST_FILE: &str = "plugin.toml";

/// A version of the contract that this host serves.
///
/// A new version stands beside the old ones: a component keeps the version that it was built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContractVersion {
    /// The version in `wit/0.1`.
    V0_1,
    /// The version in `wit/`.
    V0_2,
}

impl ContractVersion {
    /// All versions, the oldest first.
    pub const ALL: [Self; 2] = [Self::V0_1, Self::V0_2];

    /// The version that new plugins are built for.
    pub const NEWEST: Self = Self::V0_2;

    /// Returns the number of the version.
    pub const fn number(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1.0",
            Self::V0_2 => "0.2.0",
        }
    }

    /// Returns the name of an interface in this version: `log` is `shelly:plugin/log@0.2.0`.
    pub fn qualified(self, interface: &str) -> String {
        format!("{PACKAGE}{interface}@{self}")
    }

    /// Returns the numbers of all versions, for a message.
    pub fn all_numbers() -> String {
        Self::ALL.map(Self::number).join(" and ")
    }
}

impl fmt::Display for ContractVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

/// The number of the newest version of the contract that this host serves.
pub const CONTRACT: &str = ContractVersion::NEWEST.number();

/// A version that this host does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownContractVersion {
    /// `true` if the version comes after all that this host serves.
    pub is_newer: bool,
}

impl FromStr for ContractVersion {
    type Err = UnknownContractVersion;

    /// Returns the version that serves components of this number: only the last part may differ.
    fn from_str(number: &str) -> Result<Self, UnknownContractVersion> {
        fn series(number: &str) -> Option<(u64, u64)> {
            let (series, _) = number.rsplit_once('.')?;
            let (major, minor) = series.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        }
        let wanted = series(number);
        let served = |version: &Self| wanted.is_some() && series(version.number()) == wanted;
        let is_newer = wanted > series(Self::NEWEST.number());
        Self::ALL.into_iter().find(served).ok_or(UnknownContractVersion { is_newer })
    }
}

/// Splits the name of an interface of the contract: `shelly:plugin/log@0.1.0` is (`log`, `0.1.0`).
pub fn of_contract(name: &str) -> Option<(&str, &str)> {
    let interface = name.strip_prefix(PACKAGE)?;
    Some(interface.split_once('@').unwrap_or((interface, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contract_versions_of_one_series_are_compatible() {
        for (number, served) in [
            ("0.1.0", Ok(ContractVersion::V0_1)),
            ("0.1.7", Ok(ContractVersion::V0_1)),
            ("0.2.0", Ok(ContractVersion::V0_2)),
            ("0.2.1", Ok(ContractVersion::V0_2)),
            ("0.0.9", Err(false)),
            ("0.3.0", Err(true)),
            ("0.10.0", Err(true)),
            ("1.1.0", Err(true)),
            ("", Err(false)),
            ("0.1", Err(false)),
        ] {
            let parsed = number.parse::<ContractVersion>();
            assert_eq!(parsed.map_err(|unknown| unknown.is_newer), served, "{number}");
        }
        assert!(ContractVersion::ALL.is_sorted() && ContractVersion::ALL.last() == Some(&ContractVersion::NEWEST));
        assert_eq!(of_contract(&ContractVersion::NEWEST.qualified("kv")), Some(("kv", "0.2.0")));
    }
}
