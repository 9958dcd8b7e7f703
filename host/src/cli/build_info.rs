//! The build of this program: its versions, and for what and from what it was built.

use std::sync::LazyLock;

use serde::Serialize;

use crate::plugin::{CONTRACT, ContractVersion, WASMTIME_VERSION};

/// The facts about this build.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct BuildInfo {
    /// The version of `shelly-host`.
    pub version: &'static str,
    /// The newest version of the contract with plugins. Plugins of older versions that this build serves run, too.
    pub contract: &'static str,
    /// The version of wasmtime.
    pub wasmtime: &'static str,
    /// The target triple.
    pub target: &'static str,
    /// The cargo profile: `release`, or `debug` for a development build.
    pub profile: &'static str,
    /// The git commit; `None` for a development build and for one that was not built in the repository.
    pub commit: Option<&'static str>,
}

/// This build.
pub const BUILD: BuildInfo = BuildInfo {
    version: env!("CARGO_PKG_VERSION"),
    contract: CONTRACT,
    wasmtime: WASMTIME_VERSION,
    target: env!("SHELLY_BUILD_TARGET"),
    profile: env!("SHELLY_BUILD_PROFILE"),
    commit: option_env!("SHELLY_BUILD_COMMIT"),
};

/// The text after the name of the program that `--version` prints.
pub static LONG_VERSION: LazyLock<String> =
    LazyLock::new(|| [vec![BUILD.version.to_owned()], BUILD.lines()].concat().join("\n"));

impl BuildInfo {
    /// Returns the facts without the version, one on each line.
    pub fn lines(&self) -> Vec<String> {
        let series = |version: ContractVersion| {
            let number = version.number();
            format!("{}.x", number.rsplit_once('.').map_or(number, |(series, _)| series))
        };
        let series = ContractVersion::ALL.map(series).join(" and ");
        vec![
            format!("contract  {} (plugins of {series} run)", self.contract),
            format!("wasmtime  {}", self.wasmtime),
            format!("target    {}", self.target),
            format!("profile   {}", self.profile),
            format!("commit    {}", self.commit.unwrap_or("unknown")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_version_has_every_fact_of_the_build() {
        let text = LONG_VERSION.as_str();
        assert_eq!(text.lines().next(), Some(env!("CARGO_PKG_VERSION")));
        for (fact, value) in
            [("contract", CONTRACT), ("wasmtime", WASMTIME_VERSION), ("target", std::env::consts::ARCH)]
        {
            let line = text.lines().find(|line| line.starts_with(fact)).unwrap_or_else(|| panic!("no {fact}: {text}"));
            assert!(line.contains(value), "{line}");
        }
        // The test is built as the library is: without a commit unless it is optimised for release.
        let commit = text.lines().last().unwrap();
        assert_eq!(commit == "commit    unknown", BUILD.commit.is_none(), "{text}");
    }
}
