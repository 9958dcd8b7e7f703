//! The rules of `docs/style.md` for names and doc comments that a program can check.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{code, files, host};

/// Words that once named types here, in place of the words of the field.
const RETIRED: &[&str] = &[
    "AtWork",
    "Asked",
    "Badge",
    "Beside",
    "Chance",
    "Company",
    "Crew",
    "Crowd",
    "Desk",
    "Door",
    "Employer",
    "Entrant",
    "Errand",
    "ErrandId",
    "ErrandPast",
    "Found",
    "Gate",
    "Gathered",
    "Ground",
    "Held",
    "Hired",
    "House",
    "Keeper",
    "Kept",
    "Letters",
    "Link",
    "Made",
    "NotHired",
    "Outfit",
    "Patience",
    "Place",
    "Purse",
    "Replied",
    "Said",
    "Seen",
    "Shelf",
    "Shell",
    "Side",
    "Stint",
    "Thing",
    "Told",
    "Troupe",
    "Way",
    "Who",
    "Worn",
];

/// Words with which no summary begins: it would be half a sentence.
const NO_SUMMARY: &[&str] = &["What", "Whether", "How", "That", "It", "As", "Who", "Where", "Why"];

/// The longest name of a test.
const TEST_NAME: usize = 60;

/// The name of the type that this line defines. Associated types are indented.
fn defined_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().peekable();
    words.next_if(|word| word.starts_with("pub"));
    // The path of `pub(in crate::module)`.
    words.next_if(|word| word.ends_with(')'));
    let is_definition = match words.next()? {
        "type" => !line.starts_with(' '),
        keyword => ["struct", "enum", "trait", "union"].contains(&keyword),
    };
    let name = words.next().filter(|_| is_definition)?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(&name[..end]).filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// The types of the host, each with the files that define it.
fn types() -> BTreeMap<String, BTreeSet<String>> {
    let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in host().into_iter().filter(|(path, _)| !path.contains("tests")) {
        for name in code(&text).lines().filter_map(defined_type) {
            types.entry(name.to_owned()).or_default().insert(path.clone());
        }
    }
    types
}

#[test]
fn type_definitions_are_recognised() {
    for (line, name) in [
        ("pub struct Agent {", Some("Agent")),
        ("    enum Local<'a> {", Some("Local")),
        ("pub(in crate::plugin) trait Guest: Send {", Some("Guest")),
        ("type BoxError = Box<dyn Error>;", Some("BoxError")),
        ("    type Error = Fault;", None),
        ("impl Agent {", None),
        ("let structure = 1;", None),
    ] {
        assert_eq!(defined_type(line), name, "{line}");
    }
}

#[test]
fn type_name_is_defined_once() {
    let types = types();
    assert!(types.len() > 1_000, "they are looked at");
    for (name, files) in types {
        assert_eq!(files.len(), 1, "`{name}` is defined in {files:?}: name each after its subject");
    }
}

#[test]
fn retired_words_name_no_type() {
    for (name, files) in types() {
        assert!(!RETIRED.contains(&name.as_str()), "{files:?}: `{name}` says too little; see docs/style.md");
    }
}

#[test]
fn test_names_fit_on_a_line() {
    let mut count = 0;
    for (path, text) in files(&["host", "plugins", "sdk", "tests", "examples"], &[".rs"]) {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[test") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
                let name = rest.split('(').next().unwrap();
                assert!(name.len() <= TEST_NAME, "{path}: `{name}` has {} characters, {TEST_NAME} may be", name.len());
                (is_test, count) = (false, count + 1);
            }
        }
    }
    assert!(count > 1_000, "they are looked at");
}

/// The numbers of the lines of types whose comments models read as the descriptions of a schema.
fn lines_of_schemas(text: &str) -> BTreeSet<usize> {
    let (lines, mut found) = (text.lines().collect::<Vec<_>>(), BTreeSet::new());
    for at in (0..lines.len()).filter(|at| lines[*at].contains("derive(") && lines[*at].contains("JsonSchema")) {
        let begins = (0..at).rev().take_while(|at| lines[*at].trim_start().starts_with("//")).last().unwrap_or(at);
        let end = format!("{}}}", " ".repeat(lines[at].len() - lines[at].trim_start().len()));
        let ends = (at..lines.len()).find(|at| lines[*at] == end).unwrap_or(at);
        found.extend(begins + 1..=ends + 1);
    }
    found
}

#[test]
fn summaries_are_statements() {
    for (path, text) in host() {
        let (mut before, exempt) = ("", lines_of_schemas(&text));
        for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
            let is_first = !before.starts_with("///") && !before.starts_with("//!");
            let summary = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
            // Text within a string may look the same.
            let summary = summary.filter(|summary| is_first && !summary.ends_with('\\'));
            let first = summary.and_then(|summary| summary.split([' ', ',', ':']).next()).unwrap_or_default();
            assert!(
                !NO_SUMMARY.contains(&first) || exempt.contains(&at),
                "{path}:{at}: the summary begins with `{first}`: begin with a noun, or a verb in the third person"
            );
            before = line;
        }
    }
}
