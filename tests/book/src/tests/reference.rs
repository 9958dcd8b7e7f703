use std::{collections::BTreeSet, fs};

use clap::Command;
use serde_json::json;
use wit_parser::Resolve;

use crate::{
    contract_examples::{EXAMPLES, contract_examples},
    json_schema,
    markdown::{anchor, first_sentence},
    page::{ReferencePage, pages, root, source},
};

/// The variable that has the pages written instead of compared.
const UPDATE: &str = "SHELLY_UPDATE_DOCS";

#[test]
fn reference_pages_are_up_to_date() {
    let (docs, update) = (root().join("docs"), std::env::var_os(UPDATE).is_some());
    let mut outdated = Vec::new();
    for ReferencePage { path, text } in pages() {
        let file = docs.join(&path);
        let there = fs::read_to_string(&file).unwrap_or_default();
        if there == text {
            continue;
        }
        if update {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            continue;
        }
        let line = there.lines().zip(text.lines()).take_while(|(old, new)| old == new).count();
        let new = text.lines().nth(line).unwrap_or("(the end)");
        outdated.push(format!("docs/{path}:{}: the source now says: {new}", line + 1));
    }
    assert!(
        outdated.is_empty(),
        "{}\nRead what changes, then write the pages anew: {UPDATE}=1 cargo test -p shelly-book",
        outdated.join("\n")
    );
}

#[test]
fn generated_pages_without_a_source_are_removed() {
    let known: BTreeSet<_> = pages().into_iter().map(|page| page.path).collect();
    let docs = root().join("docs");
    for folder in ["", "contract"] {
        for entry in fs::read_dir(docs.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(&docs).unwrap().display().to_string();
            let text = if path.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
            assert!(
                !text.starts_with("<!-- Generated") || known.contains(&below),
                "docs/{below} has no source: remove it"
            );
        }
    }
}

#[test]
fn every_wit_item_is_on_a_contract_page() {
    let pages = pages();
    let text: String = pages.iter().filter(|page| page.path.starts_with("contract")).map(|page| &*page.text).collect();
    for file in ["types", "kinds", "imports", "worlds"] {
        let source = fs::read_to_string(root().join(format!("wit/{file}.wit"))).unwrap();
        let mut count = 0;
        for line in source.lines().map(str::trim) {
            let mut words = line.split([' ', ':', '{', ';', '=']);
            let is_item = ["interface", "record", "variant", "enum", "flags", "resource", "world", "type"]
                .contains(&words.next().unwrap_or_default());
            if let Some(name) = words.next().filter(|name| is_item && !name.is_empty()) {
                assert!(
                    text.contains(&format!("# `{name}`\n")),
                    "no contract page has a heading for `{name}` of {file}.wit"
                );
                count += 1;
            }
        }
        assert!(count > 5, "{file}.wit: {count}");
    }
}

/// The sentences of the contract are all there, whatever links are in them.
#[test]
fn every_wit_comment_is_on_a_contract_page() {
    let plain = |text: &str| {
        let mut plain = String::new();
        let mut rest = text;
        // Links become their text.
        while let Some((before, after)) = rest.split_once("](") {
            plain.push_str(before);
            rest = after.split_once(')').map_or("", |(_, rest)| rest);
        }
        plain.push_str(rest);
        plain.chars().filter(|c| !c.is_whitespace() && !['[', '`', '\\'].contains(c)).collect::<String>()
    };
    let pages = pages();
    let text: String =
        pages.iter().filter(|page| page.path.starts_with("contract")).map(|page| plain(&page.text)).collect();
    let mut count = 0;
    for file in ["types", "kinds", "imports", "worlds"] {
        let source = fs::read_to_string(root().join(format!("wit/{file}.wit"))).unwrap();
        for line in source.lines().filter_map(|line| line.trim().strip_prefix("///")) {
            let line = plain(line.trim());
            assert!(text.contains(&line), "{file}.wit: no contract page has `{line}`");
            count += 1;
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn every_contract_function_has_an_example() {
    let examples = contract_examples(&source(EXAMPLES));
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(root().join("wit")).unwrap();
    let mut without = examples.keys().cloned().collect::<BTreeSet<_>>();
    for (name, id) in &resolve.packages[package].interfaces {
        let functions: Vec<_> = resolve.interfaces[*id].functions.values().collect();
        if functions.is_empty() {
            continue;
        }
        without.remove(name);
        let example = examples.get(name).unwrap_or_else(|| panic!("{EXAMPLES} has no module for `{name}`"));
        let words: BTreeSet<_> = example.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for function in functions {
            // Methods are `[method]upload.write`.
            let function = function.name.rsplit(['.', ']']).next().unwrap().replace('-', "_");
            assert!(words.contains(&*function), "{EXAMPLES}: the module for `{name}` does not show `{function}`");
        }
    }
    assert!(without.is_empty(), "{EXAMPLES} has modules for no interface: {without:?}");
}

/// Runs `check` on the program's commands, with the words before each.
fn for_each_command(command: &Command, check: &mut impl FnMut(&Command)) {
    check(command);
    for below in command.get_subcommands() {
        for_each_command(below, check);
    }
}

/// The words of a command line as a shell reads them: blanks part them, but for those in quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn help_examples_are_valid_command_lines() {
    let program = shelly_host::cli::command();
    let mut lines = Vec::new();
    for_each_command(&program, &mut |command| {
        let after =
            command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string).unwrap_or_default();
        let examples = after.lines().filter(|line| line.starts_with("  ")).map(str::to_owned);
        lines.extend(examples.filter(|line| line.contains("shelly-host ")));
    });
    assert!(lines.len() > 30, "{lines:?}");
    for line in lines {
        let (_, command) = line.split_once("shelly-host ").unwrap();
        // What the shell does with it is no part of it, nor is what is said of it.
        let end = [" | ", " > ", " < ", "  ", " && "].iter().filter_map(|mark| command.find(mark)).min();
        let words = [vec!["shelly-host".to_owned()], words(&command[..end.unwrap_or(command.len())])].concat();
        let parsed = program.clone().try_get_matches_from(&words);
        assert!(parsed.is_ok(), "`{}` is refused: {}", line.trim(), parsed.unwrap_err());
    }
}

#[test]
fn event_page_fields_are_those_that_serde_writes() {
    use shelly_host::event::{AnsweredBy, Event, ModelWait, QuestionDecision};
    let page = pages().into_iter().find(|page| page.path == "events.md").unwrap().text;
    let fields = |name: &str| {
        let (_, section) = page.split_once(&format!("### `{name}`\n")).unwrap_or_else(|| panic!("no event `{name}`"));
        let section = section.split("\n##").next().unwrap();
        let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        cells.map(|(field, _)| field.to_owned()).collect::<BTreeSet<_>>()
    };
    let agent: std::sync::Arc<str> = "ada".into();
    for key in ["sequence", "time", "run", "parent", "session", "version", "host"] {
        assert!(page.contains(&format!("\n| `{key}` | ")), "events.md has no row `{key}`");
    }
    let events = [
        Event::ToolFinished {
            agent: agent.clone(),
            call: String::new(),
            tool: String::new(),
            is_error: true,
            reason: Some(String::new()),
            bytes: 1,
            duration: std::time::Duration::from_micros(1_500),
        },
        Event::ModelWaits { agent: agent.clone(), model: String::new(), wait: ModelWait::Retry, detail: String::new() },
        Event::QuestionAnswered {
            agent,
            id: 1,
            question: String::new(),
            outcome: QuestionDecision::Yes,
            by: AnsweredBy::Person,
        },
        Event::Missed { count: 1 },
    ];
    for event in events {
        let json = serde_json::to_value(&event).unwrap();
        let mut written: BTreeSet<_> = json.as_object().unwrap().keys().cloned().collect();
        written.remove("event");
        assert_eq!(fields(json["event"].as_str().unwrap()), written);
    }
}

#[test]
fn bounds_have_values_with_units() {
    let page = pages().into_iter().find(|page| page.path == "all-limits.md").unwrap().text;
    for (name, value) in [
        ("CHAT_BYTES", "256 MiB".to_owned()),
        ("CHATS_PER_RUN_BYTES", "512 MiB".to_owned()),
        ("DIFF_TIME", "500 ms".to_owned()),
        ("TOOL_RESULT_CHARS", "32,000 characters".to_owned()),
        ("MAX_ITERATIONS_CEILING", "10,000".to_owned()),
    ] {
        let row = format!("| `{name}` | {value} | ");
        assert!(page.contains(&row), "all-limits.md has no row `{row}`");
    }
    assert_eq!(shelly_host::limits::CHATS_PER_RUN_BYTES, 512 << 20);
}

#[test]
fn schema_becomes_tables_of_keys() {
    let schema = json!({
        "description": "A config",
        "type": "object",
        "required": ["agents"],
        "properties": {
            "agents": {"type": "array", "items": {"$ref": "#/$defs/Agent"}, "description": "The agents."},
            "env": {"type": "object", "additionalProperties": {"type": "string"}, "default": {}},
            "share": {"type": ["number", "null"], "minimum": 0, "maximum": 1, "default": null},
            "time": {"type": ["string", "null"], "examples": ["90s"], "$comment": "at most 1h"},
        },
        "$defs": {
            "Agent": {
                "type": "object",
                "properties": {
                    "mode": {"anyOf": [{"$ref": "#/$defs/Mode"}, {"type": "null"}]},
                    "turns": {"type": "integer", "minimum": 0, "default": 50, "description": "Turns | of one run"},
                },
            },
            "Mode": {"oneOf": [
                {"const": "fast", "description": "Cheap."},
                {"const": "slow", "description": "Good."},
            ]},
            "Unused": {"type": "string"},
        },
    });
    let text = json_schema::page(&schema, "the schema").text;
    for row in [
        "| `agents` | list of [Agent](#agent) | required | The agents. |",
        "| `env` | map from names to strings |  |  |",
        "| `share` | number, 0 to 1 |  |  |",
        "| `time` | string such as `90s`: at most 1h |  |  |",
        "| `mode` | [Mode](#mode) |  |  |",
        "| `turns` | whole number | `50` | Turns \\| of one run. |",
        "| `slow` | Good. |",
    ] {
        assert!(text.contains(row), "`{row}` is not in\n{text}");
    }
    assert!(!text.contains("Unused"));
}

#[test]
fn anchors_are_those_of_the_book() {
    for (heading, anchors) in [("`http`", "http"), ("A tool, and more", "a-tool-and-more"), ("`body.read`", "bodyread")]
    {
        assert_eq!(anchor(heading), anchors);
    }
    assert_eq!(first_sentence("One\nthing. Another."), "One thing.");
}
