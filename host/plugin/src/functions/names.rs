//! The names of the tools that a component's functions become.

use std::fmt;

use shelly_core::{chat::ToolSpec, digest::Sha256Digest, tool::looks_like};

/// The interface and name of an exported function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionPath {
    /// The interface as the component names it, with its version; `None` for an export at the root.
    pub interface: Option<String>,
    /// The function as the component names it: `add`, `[method]counter.get`.
    pub function: String,
}

impl fmt::Display for FunctionPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(interface) => write!(f, "{interface}#{}", self.function),
            None => f.write_str(&self.function),
        }
    }
}

/// The names that a tool can have, the shortest first. Each tool of a component takes the shortest one that is unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolNameCandidates {
    names: Vec<String>,
    /// The full name in the component, which is unique.
    full: String,
}

impl ToolNameCandidates {
    /// Derives the names: the function's own name, then with its interface, then with package and version too.
    pub fn of(path: &FunctionPath) -> Self {
        let own = words(&own_name(&path.function));
        let mut names = vec![own.clone()];
        if let Some(interface) = &path.interface {
            let (before, last) = interface.rsplit_once('/').unwrap_or(("", interface));
            let (last, version) = last.split_once('@').unwrap_or((last, ""));
            names.push(format!("{}_{own}", words(last)));
            let parts = [before, last, version].map(words);
            let parts: Vec<_> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            names.push(format!("{}_{own}", parts.join("_")));
        }
        Self { names, full: path.to_string() }
    }

    fn name(&self, longer: usize) -> String {
        let name = &self.names[longer.min(self.names.len() - 1)];
        match ToolSpec::is_valid_name(name) {
            true => name.clone(),
            // The name is too long, or has no character that the name of a tool may have.
            false => self.hashed(name),
        }
    }

    fn hashed(&self, name: &str) -> String {
        const HASH: usize = 8;
        let hash = Sha256Digest::of(&self.full).hex();
        let start: String = name.chars().take(64 - HASH - 1).collect();
        format!("{start}_{}", &hash[..HASH])
    }
}

/// Returns the function's own name; that of a resource's function includes the resource.
fn own_name(function: &str) -> String {
    match function.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some(("constructor", resource)) => format!("{resource}-new"),
        Some(("drop", resource)) => format!("{resource}-drop"),
        Some((_, name)) => name.replace('.', "-"),
        None => function.to_owned(),
    }
}

/// Replaces the characters that the name of a tool cannot have.
fn words(name: &str) -> String {
    let allowed = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    allowed.collect::<String>().trim_matches('_').to_owned()
}

/// Chooses the names of the tools. If two names are equal or hardly differ, both get longer ones; as a last resort they
/// end in a hash of the full name. The result depends on the component alone.
pub fn tool_names(all: &[ToolNameCandidates]) -> Vec<String> {
    let mut longer = vec![0; all.len()];
    let names =
        |longer: &[usize]| -> Vec<_> { all.iter().zip(longer).map(|(one, longer)| one.name(*longer)).collect() };
    let alike = |names: &[String], at: usize| {
        let is_like = |other: &String| *other == names[at] || looks_like(other, &names[at]);
        names.iter().enumerate().any(|(there, other)| there != at && is_like(other))
    };
    // No name has more than three lengths.
    for _ in 0..3 {
        let now = names(&longer);
        for at in 0..all.len() {
            if longer[at] + 1 < all[at].names.len() && alike(&now, at) {
                longer[at] += 1;
            }
        }
    }
    let now = names(&longer);
    let name = |at: usize| if alike(&now, at) { all[at].hashed(&now[at]) } else { now[at].clone() };
    (0..all.len()).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(functions: &[(&str, &str)]) -> Vec<String> {
        let path = |(interface, function): &(&str, &str)| FunctionPath {
            interface: (!interface.is_empty()).then(|| (*interface).into()),
            function: (*function).into(),
        };
        let naming: Vec<_> = functions.iter().map(|one| ToolNameCandidates::of(&path(one))).collect();
        tool_names(&naming)
    }

    #[test]
    fn tool_gets_its_shortest_unique_name() {
        for (functions, names) in [
            (&[("", "add"), ("a:b/calc@1.0.0", "sub-all")][..], &["add", "sub_all"][..]),
            (&[("a:b/x@1.0.0", "get"), ("a:b/y@1.0.0", "get"), ("", "put")], &["x_get", "y_get", "put"]),
            (&[("", "get"), ("a:b/y", "get")], &["get", "y_get"]),
            (&[("a:b/x@1.0.0", "get"), ("a:b/x@2.1.0", "get")], &["a_b_x_1_0_0_get", "a_b_x_2_1_0_get"]),
            (&[("a:b/x", "[constructor]counter"), ("a:b/x", "[method]counter.get")], &["counter_new", "counter_get"]),
            (
                &[("a:b/x", "[static]counter.merge-all"), ("a:b/x", "[drop]counter")],
                &["counter_merge_all", "counter_drop"],
            ),
            (
                &[("", "[method]counter.drop"), ("", "[drop]counter")],
                &["counter_drop_7fb7d89e", "counter_drop_07b7826e"],
            ),
            // Names that hardly differ are distinct enough with their interfaces.
            (&[("a:b/x", "read-file"), ("a:b/other", "readfile")], &["x_read_file", "other_readfile"]),
        ] {
            assert_eq!(named(functions), names);
        }
    }

    #[test]
    fn function_tool_names_are_valid_and_distinct() {
        let long = "very-".repeat(30) + "long";
        let other = "very-".repeat(30) + "lonG2";
        let names = named(&[("", &long), ("", &other), ("a:b/c", &long)]);
        assert!(names.iter().all(|name| ToolSpec::is_valid_name(name)), "{names:?}");
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
    }
}
