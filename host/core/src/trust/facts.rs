use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::Path,
};

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::{digest::Sha256Digest, limits};

/// Sorted lines that each say one thing that a project's files want. Each is a permission by itself: fewer lines allow
/// less.
#[derive(Debug, Clone, Default)]
pub struct TrustFacts(BTreeMap<String, FactDetails>);

/// The risk and the earlier spellings of a line.
#[derive(Debug, Clone, Default)]
struct FactDetails {
    danger: RiskLevel,
    /// Lines of an earlier version that together allowed at least as much: a person who accepted all of one of these lists
    /// is not asked again.
    before: Vec<Vec<String>>,
}

/// The harm that a line allows, the greatest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RiskLevel {
    /// Code runs outside of any sandbox.
    Runs,
    /// Credentials, conversations or the data of plugins leave this machine.
    Sends,
    /// Files are changed, or something else is done, without asking.
    Changes,
    /// Files or servers are read.
    Reads,
    /// Nothing by itself.
    #[default]
    Little,
}

/// The lines about one thing: a plugin (for all agents that have it), a model, a server.
#[derive(Debug, PartialEq, Eq)]
pub struct FactGroup<'a> {
    /// The thing that the lines are about.
    pub subject: String,
    /// The lines, the most dangerous first.
    pub lines: Vec<FactLine<'a>>,
}

/// A line of a group.
#[derive(Debug, PartialEq, Eq)]
pub struct FactLine<'a> {
    /// The harm that it allows.
    pub risk: RiskLevel,
    /// The whole line.
    pub line: &'a str,
    /// The agent or team that has the plugin or server of the group, if the line is about one.
    pub owner: Option<&'a str>,
    /// The kind of step that the plugin is for its owner, such as `effect`; `None` if it only gives tools.
    pub role: Option<&'a str>,
    /// The rest of the line.
    pub what: &'a str,
}

impl TrustFacts {
    /// Adds a line. Text from others must stand in it as [`quoted`] or [`quoted_path`], so that no line can pass for
    /// another.
    pub fn add(&mut self, danger: RiskLevel, line: String) {
        self.insert(line, FactDetails { danger, before: Vec::new() });
    }

    /// Adds a line that earlier versions spelled in other ways, each of which allowed at least as much.
    pub fn add_spelled_anew(&mut self, danger: RiskLevel, line: String, before: Vec<Vec<String>>) {
        self.insert(line, FactDetails { danger, before });
    }

    fn insert(&mut self, line: String, meaning: FactDetails) {
        match self.0.entry(line) {
            Entry::Vacant(vacant) => drop(vacant.insert(meaning)),
            Entry::Occupied(mut there) if meaning.danger < there.get().danger => drop(there.insert(meaning)),
            Entry::Occupied(_) => {}
        }
    }

    /// Adds the lines of `more`.
    pub fn extend(&mut self, more: Self) {
        more.0.into_iter().for_each(|(line, meaning)| self.insert(line, meaning));
    }

    /// Returns the lines in alphabetical order.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the lines grouped by subject, the most dangerous first.
    pub fn groups(&self) -> Vec<FactGroup<'_>> {
        let mut groups: Vec<FactGroup<'_>> = Vec::new();
        for (line, meaning) in &self.0 {
            let (subject, one) = grouped_line(line, meaning.danger);
            match groups.iter_mut().find(|group| group.subject == subject) {
                Some(group) => group.lines.push(one),
                None => groups.push(FactGroup { subject, lines: vec![one] }),
            }
        }
        // The sorts are stable: lines, and groups, of equal risk stay in order.
        groups.iter_mut().for_each(|group| group.lines.sort_by_key(|line| line.risk));
        groups.sort_by_key(|group| group.lines[0].risk);
        groups
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no lines.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if this is one of the lines.
    pub fn contains(&self, line: &str) -> bool {
        self.0.contains_key(line)
    }

    /// Returns the lines that are not among `others`, neither in their present nor in an earlier spelling.
    pub fn without(&self, others: &Self) -> Self {
        let is_there = |(line, meaning): &(&String, &FactDetails)| {
            others.contains(line) || meaning.before.iter().any(|lines| lines.iter().all(|line| others.contains(line)))
        };
        let rest = self.0.iter().filter(|one| !is_there(one));
        Self(rest.map(|(line, meaning)| (line.clone(), meaning.clone())).collect())
    }

    /// Keeps the lines for which `is_kept` returns `true`.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&String) -> bool) {
        self.0.retain(|line, _| is_kept(line));
    }

    /// Returns `true` if a person can be shown all lines: at most [`limits::FACTS_SHOWN`], each of at most
    /// [`limits::FACT_CHARS`] characters. A person must not accept what was cut away.
    pub fn can_be_shown(&self) -> bool {
        self.len() <= limits::FACTS_SHOWN && self.lines().all(|line| line.chars().count() <= limits::FACT_CHARS)
    }

    /// Returns the SHA-256 digest of the lines, as `sha256:` and 64 hexadecimal digits.
    pub fn digest(&self) -> String {
        let mut all = Sha256::new();
        for line in self.lines() {
            all.update((line.len() as u64).to_le_bytes());
            all.update(line);
        }
        Sha256Digest::from(all).to_string()
    }
}

impl FromIterator<String> for TrustFacts {
    fn from_iter<T: IntoIterator<Item = String>>(lines: T) -> Self {
        Self(lines.into_iter().map(|line| (line, FactDetails::default())).collect())
    }
}

impl FromIterator<(RiskLevel, String)> for TrustFacts {
    fn from_iter<T: IntoIterator<Item = (RiskLevel, String)>>(lines: T) -> Self {
        let mut facts = Self::default();
        lines.into_iter().for_each(|(danger, line)| facts.add(danger, line));
        facts
    }
}

/// Compares the lines alone: equal lines mean the same.
impl PartialEq for TrustFacts {
    fn eq(&self, other: &Self) -> bool {
        self.lines().eq(other.lines())
    }
}

impl Eq for TrustFacts {}

impl Serialize for TrustFacts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.lines())
    }
}

/// Splits a line into its subject and the rest. Lines about a plugin or a server that an agent has are grouped under the
/// plugin or server. Names are [`quoted`], so that a name cannot contain its own end.
fn grouped_line(line: &str, risk: RiskLevel) -> (String, FactLine<'_>) {
    let plain = |what| FactLine { risk, line, owner: None, role: None, what };
    // The end of the first quoted name from a position on.
    let after_name = |from: usize| {
        let begin = from + line[from..].find('`')?;
        Some(begin + 2 + line[begin + 1..].find('`')?)
    };
    if let Some(what) = line.strip_prefix(PERMISSIONS) {
        return ("permissions".into(), plain(what));
    }
    let Some(end) = after_name(0) else { return (line.into(), plain("")) };
    let (owner, rest) = line.split_at(end);
    let named = rest.strip_prefix(": the ").and_then(|named| Some((named.split_once(" `")?.0, after_name(end)?)));
    let Some((kind, end)) = named else { return (owner.into(), plain(rest.trim_start_matches([':', ' ']))) };
    let (name, what) = (&line[line[..end - 1].rfind('`').unwrap_or_default()..end], line[end..].trim_start());
    let of_owner = |role| FactLine { owner: Some(owner), role, ..plain(what) };
    match kind {
        "plugin" | "MCP server" | "API" => (format!("the {kind} {name}"), of_owner(None)),
        kind => (format!("the plugin {name}"), of_owner(Some(kind))),
    }
}

/// The prefix of lines about the project's permissions.
const PERMISSIONS: &str = "permissions: ";

/// Quotes text from others for use in a line: in backticks, with backticks and all that acts on a terminal escaped.
/// Different texts stay different.
pub fn quoted(text: &str) -> String {
    let escape = |c: char| match c {
        '`' => "\\u{60}".to_owned(),
        '\'' | '"' => c.to_string(),
        c => c.escape_debug().to_string(),
    };
    format!("`{}`", text.chars().map(escape).collect::<String>())
}

/// Quotes a path as [`quoted`] does; bytes that are no text are escaped.
pub fn quoted_path(path: &Path) -> String {
    match path.to_str() {
        Some(text) => quoted(text),
        None => quoted(&format!("{path:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(lines: &[&str]) -> TrustFacts {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn no_text_can_pass_for_another_line() {
        for (text, shown) in [
            ("plain é 日", "`plain é 日`"),
            ("it's \"so\"", "`it's \"so\"`"),
            ("a` may write `/", "`a\\u{60} may write \\u{60}/`"),
            ("a\\u{60}", "`a\\\\u{60}`"),
            ("two\nlines\x1b[2J\u{9b}\u{202e}", "`two\\nlines\\u{1b}[2J\\u{9b}\\u{202e}`"),
        ] {
            assert_eq!(quoted(text), shown);
            assert!(!quoted(text).contains(crate::error::acts_on_terminal), "{text:?}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            let odd = |bytes: &[u8]| quoted_path(Path::new(std::ffi::OsStr::from_bytes(bytes)));
            assert_ne!(odd(b"/a\xff"), odd(b"/a\xfe"));
        }
    }

    #[test]
    fn a_digest_is_that_of_the_lines_in_whatever_order() {
        let one = facts(&["a", "b"]);
        assert_eq!(one.digest(), facts(&["b", "a", "b"]).digest());
        assert!(one.digest().starts_with("sha256:") && one.digest().len() == 71);
        for other in [&["a"][..], &["ab"], &["a", "b", ""], &[]] {
            assert_ne!(one.digest(), facts(other).digest(), "{other:?}");
        }
        assert_eq!(one.without(&facts(&["b", "c"])), facts(&["a"]));
    }

    #[test]
    fn fact_groups_are_sorted_by_risk() {
        let mut all = TrustFacts::default();
        for (danger, line) in [
            (RiskLevel::Little, "the agent `a`: the plugin `p` may know the time"),
            (RiskLevel::Reads, "the agent `a`: the plugin `p` may read `/x: the y`"),
            (RiskLevel::Little, "the agent `a` is watched over by `p`"),
            (RiskLevel::Reads, "the plugin `p` in `/plugins/p`: sha256:00, asks for nothing"),
            (RiskLevel::Sends, "the model `m`: its plugin may send requests of any method to `https://h`"),
            (RiskLevel::Little, "the model `m`: its plugin may know the time"),
            (RiskLevel::Sends, "the model `n` is at `https://n`: conversations go there"),
            (RiskLevel::Changes, "permissions: the tool `p/t` may be called without asking you"),
            (RiskLevel::Runs, "the MCP server `s` is the program `npx`, run outside the sandbox in `/x`"),
            (RiskLevel::Little, "the agent `a`: the MCP server `s` is used"),
            (RiskLevel::Little, "the team `t`: the middleware `p` is used"),
            (RiskLevel::Little, "a line without a name"),
        ] {
            all.add(danger, line.into());
        }
        let shown: Vec<_> = all
            .groups()
            .into_iter()
            .map(|group| {
                let shown = |line: &FactLine<'_>| match (line.owner, line.role) {
                    (None, _) => line.what.to_owned(),
                    (Some(owner), None) => format!("for {owner}: {}", line.what),
                    (Some(owner), Some(role)) => format!("for {owner}, as its {role}: {}", line.what),
                };
                let whats: Vec<_> = group.lines.iter().map(shown).collect();
                format!("{}: {}", group.subject, whats.join("; "))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "the MCP server `s`: is the program `npx`, run outside the sandbox in `/x`; for the agent `a`: is used",
                "the model `m`: its plugin may send requests of any method to `https://h`; its plugin may know the time",
                "the model `n`: is at `https://n`: conversations go there",
                "permissions: the tool `p/t` may be called without asking you",
                "the plugin `p`: for the agent `a`: may read `/x: the y`; in `/plugins/p`: sha256:00, asks for nothing; \
                 for the agent `a`: may know the time; for the team `t`, as its middleware: is used",
                "a line without a name: ",
                "the agent `a`: is watched over by `p`",
            ]
        );
        let count: usize = all.groups().iter().map(|group| group.lines.len()).sum();
        assert_eq!(count, all.len(), "none is lost");
    }

    #[test]
    fn earlier_broader_consent_is_not_asked_again() {
        let mut now = TrustFacts::default();
        let before = [&["may do anything with x"][..], &["may look at x", "may open x"]];
        let before = before.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect()).into();
        now.add_spelled_anew(RiskLevel::Reads, "may read x".into(), before);
        assert!(now.without(&facts(&["may do anything with x"])).is_empty());
        assert!(now.without(&facts(&["may look at x", "may open x"])).is_empty());
        assert_eq!(now.without(&facts(&["may look at x"])), now);
        assert!(now.without(&facts(&["may read x"])).is_empty());
        assert_eq!(now.without(&facts(&["may read y"])), now);
    }

    #[test]
    fn facts_are_shown_only_if_they_fit_whole() {
        let line = |at: usize| format!("{at}");
        assert!((0..limits::FACTS_SHOWN).map(line).collect::<TrustFacts>().can_be_shown());
        assert!(!(0..=limits::FACTS_SHOWN).map(line).collect::<TrustFacts>().can_be_shown());
        let long = |most: usize| facts(&[&"é".repeat(most)]).can_be_shown();
        assert!(long(limits::FACT_CHARS) && !long(limits::FACT_CHARS + 1));
    }
}
