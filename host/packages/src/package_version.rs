use std::cmp::Ordering;

use semver::Version;

/// The order of the version of a plugin and the one that is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionOrder {
    /// The version is newer.
    Newer,
    /// Both are the same.
    Same,
    /// The version is older.
    Older,
    /// They differ, and at least one of them is not in the form 1.2.3, so nobody can say which is newer.
    Unknown,
}

impl VersionOrder {
    /// Compares the version `new` with the installed version `old`, as Semantic Versioning orders them.
    pub fn of(new: &str, old: &str) -> Self {
        if new == old {
            return Self::Same;
        }
        match (Version::parse(new), Version::parse(old)) {
            (Ok(new), Ok(old)) => match new.cmp_precedence(&old) {
                Ordering::Greater => Self::Newer,
                Ordering::Equal => Self::Same,
                Ordering::Less => Self::Older,
            },
            // Whoever has given no version until now begins with one.
            (Ok(_), Err(_)) if old.is_empty() => Self::Newer,
            _ => Self::Unknown,
        }
    }
}

/// Returns the newest release among the tags of a repository that is newer than the tag `current`. Tags that are no versions, such
/// as `latest`, and versions before a release are left out, as is `+`, which no tag has; `None` also if `current` is no version.
pub fn newer_tag<'a>(current: &str, tags: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let version = |tag: &str| Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok();
    let current = version(current)?;
    let releases = tags.into_iter().filter_map(|tag| Some((version(tag)?, tag)));
    let is_release = |version: &Version| version.pre.is_empty() && version.build.is_empty();
    let newer = releases.filter(|(version, _)| is_release(version) && *version > current);
    newer.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_release_is_chosen_among_tags() {
        let tags = ["latest", "1.0.0", "1.10.0", "1.9.0", "2.0.0-rc.1", "3.0.0+x", "sha256-5d0c.sig", "v1.2.0"];
        for (current, expected) in
            [("1.0.0", Some("1.10.0")), ("v1.0.0", Some("1.10.0")), ("1.10.0", None), ("3.0.0", None), ("latest", None)]
        {
            assert_eq!(newer_tag(current, tags), expected, "{current}");
        }
    }

    #[test]
    fn versions_are_ordered_by_semantic_versioning() {
        for (new, old, order) in [
            ("1.10.0", "1.9.0", VersionOrder::Newer),
            ("1.0.0", "1.0.0-rc.1", VersionOrder::Newer),
            ("1.0.0+b", "1.0.0+a", VersionOrder::Same),
            ("", "", VersionOrder::Same),
            ("0.9.0", "1.0.0", VersionOrder::Older),
            ("1.0.0", "", VersionOrder::Newer),
            ("", "1.0.0", VersionOrder::Unknown),
            ("2", "1.0.0", VersionOrder::Unknown),
        ] {
            assert_eq!(VersionOrder::of(new, old), order, "{new} {old}");
        }
    }
}
