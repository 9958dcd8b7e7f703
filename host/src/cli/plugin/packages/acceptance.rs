//! The decision if another version of a package may take the place of the installed one.

use clap::Args;

use super::package_candidate::named;
use crate::{
    cli::{
        ask,
        render::{name, size},
    },
    error::{ErrorKind, Report},
    packages::{AbilityChange, LockedPluginPackage, VersionOrder},
};

/// The options that say which changes of a package are accepted.
#[derive(Args)]
pub struct AcceptanceArgs {
    /// Accept without a question that a plugin wants, imports or offers more than the installed one.
    #[arg(long)]
    pub yes: bool,
    /// Accept a version that is older than the installed one.
    #[arg(long)]
    pub allow_downgrade: bool,
}

/// Another version of an installed package, as far as the decision about it needs it.
pub struct VersionChange<'a> {
    /// The package, such as "the plugin `dice`".
    pub package: String,
    /// The installed version.
    pub before: &'a str,
    /// The version that would take its place.
    pub now: &'a str,
    /// The changes that nobody has consented to, a line each, safe to show.
    pub growth: Vec<String>,
    /// Says in a report that there is such a change.
    pub growth_text: String,
    /// The part of a hint that names what a person reads before they accept it.
    pub to_read: &'static str,
}

/// The decision about another version of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcceptanceDecision {
    Accepted,
    /// A person decides.
    Asked,
}

impl AcceptanceArgs {
    /// Returns `true` if the plugin may take the place of the installed one.
    ///
    /// # Errors
    ///
    /// Those of [`Self::accepts`].
    pub(super) async fn accepts_plugin(
        &self,
        before: &LockedPluginPackage,
        now: &LockedPluginPackage,
    ) -> Result<bool, Report> {
        self.accepts(&version_change(before, now), || changed_lines(before, now)).await
    }

    /// Returns `true` if a version may take the place of the installed one. A person at a terminal is shown what changes,
    /// and is asked.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the version is older, or nobody can be asked about one that grows.
    pub async fn accepts(
        &self,
        change: &VersionChange<'_>,
        shown: impl FnOnce() -> Vec<String>,
    ) -> Result<bool, Report> {
        match self.decide(change, ask::is_attended())? {
            AcceptanceDecision::Accepted => Ok(true),
            AcceptanceDecision::Asked => Ok(is_confirmed(&format!("{}\nuse it?", shown().join("\n"))).await),
        }
    }

    fn decide(&self, change: &VersionChange<'_>, is_attended: bool) -> Result<AcceptanceDecision, Report> {
        let order = VersionOrder::of(change.now, change.before);
        if matches!(order, VersionOrder::Older | VersionOrder::Unknown) && !self.allow_downgrade {
            let (package, now, old) = (&change.package, version(change.now), version(change.before));
            let message = match order {
                VersionOrder::Older => format!("{package} has version {now}, older than the installed {old}"),
                _ => format!("{package} has version {now}, which cannot be compared with the installed {old}"),
            };
            return Err(Report::new(ErrorKind::Plugin, message).hint("--allow-downgrade accepts it"));
        }
        match (self.yes, is_attended) {
            (true, _) => Ok(AcceptanceDecision::Accepted),
            (false, true) => Ok(AcceptanceDecision::Asked),
            (false, false) if change.growth.is_empty() => Ok(AcceptanceDecision::Accepted),
            (false, false) => {
                let report = Report::new(ErrorKind::Plugin, &change.growth_text);
                let report = change.growth.iter().fold(report, |report, line| report.cause(line));
                let to_read = change.to_read;
                Err(report.hint(format!("nobody can be asked here; --yes accepts it, after you have read {to_read}")))
            }
        }
    }
}

/// Shows a text that ends with a question to a person at the terminal. Returns `true` if the answer is yes.
pub async fn is_confirmed(shown: &str) -> bool {
    ask::choose(&format!("{shown} 1 no, 2 yes; "), &["no", "yes"]).await == Some(1)
}

fn version_change<'a>(before: &'a LockedPluginPackage, now: &'a LockedPluginPackage) -> VersionChange<'a> {
    let grown = plugin_changes(before, now).into_iter().filter(|change| change.is_growth);
    VersionChange {
        package: format!("the plugin `{}`", before.id),
        before: &before.version,
        now: &now.version,
        growth: grown.map(|change| name(&change.line)).collect(),
        growth_text: format!("the plugin {} can do more than the installed {}", named(now), version(&before.version)),
        to_read: "what it gains",
    }
}

/// Returns the differences in what a plugin can do, and in who answers for it.
pub fn plugin_changes(before: &LockedPluginPackage, now: &LockedPluginPackage) -> Vec<AbilityChange> {
    let mut changes = now.abilities.changes_since(&before.abilities);
    changes.extend(AbilityChange::of_signature(before.signature.as_deref(), now.signature.as_deref()));
    changes
}

fn version(version: &str) -> String {
    if version.is_empty() { "(no version)".into() } else { name(version) }
}

/// Returns what changes with a plugin, a line each.
pub(super) fn changed_lines(before: &LockedPluginPackage, now: &LockedPluginPackage) -> Vec<String> {
    let mut lines = vec![format!("the plugin `{}`: {} → {}", now.id, version(&before.version), version(&now.version))];
    if before.source != now.source {
        lines.push(format!("  ~ source {} → {}", name(&before.source), name(&now.source)));
    }
    if before.version == now.version {
        lines.push("  ~ the same version with other files".into());
    }
    if before.size != now.size {
        lines.push(format!("  ~ size {} → {}", size(before.size), size(now.size)));
    }
    let changes = plugin_changes(before, now);
    if changes.is_empty() {
        lines.push("  nothing changes in what it wants, imports and offers".into());
    }
    lines.extend(changes.iter().map(|change| format!("  {}", name(&change.line))));
    lines
}

#[cfg(test)]
mod tests {
    use shelly_test_support::MinisignKey;

    use super::*;
    use crate::packages::{PluginAbilities, PluginPackageFiles};

    fn locked(version: &str, wants: &[&str]) -> LockedPluginPackage {
        let files = PluginPackageFiles::new("c.wasm", version.as_bytes().to_vec()).unwrap();
        let wants = wants.iter().map(|want| (*want).to_owned()).collect();
        LockedPluginPackage::of(
            "dice",
            version,
            "build/dice",
            &files,
            PluginAbilities { wants, ..PluginAbilities::default() },
        )
    }

    const NEITHER: AcceptanceArgs = AcceptanceArgs { yes: false, allow_downgrade: false };

    #[test]
    fn grown_plugin_is_asked_about_or_refused() {
        let (before, same, grown) = (locked("1.0.0", &[]), locked("1.1.0", &[]), locked("1.1.0", &["kv: agent\u{1b}"]));
        let decide = |args: &AcceptanceArgs, now, is_attended| args.decide(&version_change(&before, now), is_attended);
        assert_eq!(decide(&NEITHER, &same, false), Ok(AcceptanceDecision::Accepted));
        assert_eq!(decide(&NEITHER, &same, true), Ok(AcceptanceDecision::Asked));
        assert_eq!(decide(&NEITHER, &grown, true), Ok(AcceptanceDecision::Asked));
        let report = decide(&NEITHER, &grown, false).unwrap_err();
        assert_eq!(report.message, "the plugin `dice` 1.1.0 can do more than the installed 1.0.0");
        assert!(report.causes[0].starts_with("+ want kv: agent") && !report.causes[0].contains('\u{1b}'), "{report}");
        assert!(report.hint.unwrap().contains("--yes"));
        let yes = AcceptanceArgs { yes: true, ..NEITHER };
        assert_eq!(decide(&yes, &grown, false), Ok(AcceptanceDecision::Accepted));
    }

    #[test]
    fn lost_signature_counts_as_growth() {
        let signed = |by: u8| {
            let signature = Some(MinisignKey::new(by).sign("files"));
            LockedPluginPackage { signature, ..locked("1.0.0", &[]) }
        };
        let grown = |now: &LockedPluginPackage| version_change(&signed(1), now).growth;
        assert_eq!(grown(&locked("1.1.0", &[])), ["- signature"]);
        assert_eq!(grown(&signed(2)), ["~ signature: by another key"]);
        assert!(grown(&signed(1)).is_empty());
    }

    #[test]
    fn older_version_is_refused_even_with_yes() {
        let before = locked("1.2.0", &[]);
        let yes = AcceptanceArgs { yes: true, ..NEITHER };
        for (version, says) in [
            ("1.1.0", "the plugin `dice` has version 1.1.0, older than the installed 1.2.0"),
            ("two", "the plugin `dice` has version two, which cannot be compared with the installed 1.2.0"),
        ] {
            let report = yes.decide(&version_change(&before, &locked(version, &[])), true).unwrap_err();
            assert_eq!(report.message, says);
        }
        let allowed = AcceptanceArgs { allow_downgrade: true, ..NEITHER };
        assert_eq!(
            allowed.decide(&version_change(&before, &locked("1.1.0", &[])), false),
            Ok(AcceptanceDecision::Accepted)
        );
    }

    #[test]
    fn changes_are_shown_with_size_and_version() {
        let (before, now) = (locked("1.0.0", &[]), locked("1.1.0-rc", &["kv: agent"]));
        assert_eq!(
            changed_lines(&before, &now),
            ["the plugin `dice`: 1.0.0 → 1.1.0-rc", "  ~ size 5 B → 8 B", "  + want kv: agent"]
        );
        let lines = changed_lines(&now, &now);
        assert_eq!(
            lines[1..],
            ["  ~ the same version with other files", "  nothing changes in what it wants, imports and offers"]
        );
    }
}
