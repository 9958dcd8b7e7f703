//! Checks of everything that people read: links, headings, and the table of contents.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::{
    markdown::anchor,
    page::{pages, root, source},
};

/// The documents at the root of the repository.
const AT_ROOT: [&str; 5] = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/SUMMARY.md"];

/// Returns the Markdown files below these folders, by their paths below the root of the repository.
fn documents(folders: &[&str]) -> BTreeSet<String> {
    let mut documents = BTreeSet::new();
    let mut left: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !["target", "node_modules", ".git"].contains(&name.as_str()) {
                left.push(path);
            } else if name.ends_with(".md") && path.is_file() {
                documents.insert(path.strip_prefix(root()).unwrap().display().to_string());
            }
        }
    }
    documents
}

/// Returns the text without blocks of code: nothing in them is a heading or a link.
fn without_blocks(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// Returns the anchors of a document's headings. A second heading of the same words has a number at its end.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut anchors, mut counts) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    for line in without_blocks(text).lines().filter(|line| line.starts_with('#')) {
        let words = line.trim_start_matches('#');
        // Of a link the text counts.
        let words = words.split("](").enumerate().map(|(at, part)| match at {
            0 => part,
            _ => part.split_once(')').map_or("", |(_, rest)| rest),
        });
        let anchor = anchor(&words.collect::<String>());
        let count = counts.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// Returns the targets of a document's links.
fn links(text: &str) -> Vec<String> {
    let prose = without_blocks(text);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

#[test]
fn document_links_lead_to_files_and_headings() {
    let mut documents = documents(&["docs", "examples", "plugins", "sdk", "tests"]);
    documents.extend(AT_ROOT.map(str::to_owned));
    let mut count = 0;
    for path in documents {
        let text = source(&path);
        let folder = Path::new(&path).parent().unwrap().to_owned();
        for link in links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            count += 1;
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let there = if file.is_empty() { PathBuf::from(&path) } else { folder.join(file) };
            let found = root().join(&there);
            assert!(found.exists(), "{path}: the link `{link}` leads nowhere");
            if !heading.is_empty() && found.extension().is_some_and(|extension| extension == "md") {
                let headings = anchors(&fs::read_to_string(&found).unwrap());
                assert!(
                    headings.contains(heading),
                    "{path}: the link `{link}` names no heading; there are {headings:?}"
                );
            }
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn book_summary_has_every_page() {
    let contents = source("docs/SUMMARY.md");
    for path in documents(&["docs"]) {
        let name = path.strip_prefix("docs/").unwrap();
        assert!(name == "SUMMARY.md" || contents.contains(&format!("]({name})")), "docs/SUMMARY.md lacks {name}");
    }
}

/// The order in which the contract itself has them.
#[test]
fn book_summary_has_contract_pages_in_order() {
    let contents = source("docs/SUMMARY.md");
    let listed: Vec<_> = links(&contents).into_iter().filter(|link| link.starts_with("contract")).collect();
    let pages: Vec<_> = pages().into_iter().map(|page| page.path).filter(|path| path.starts_with("contract")).collect();
    assert_eq!(listed, pages);
}

/// A page that takes in a file of the repository holds nothing else: the file is what people read where it is.
#[test]
fn pages_that_include_a_file_hold_nothing_else() {
    let mut count = 0;
    for path in documents(&["docs"]) {
        let text = source(&path);
        if let Some((_, rest)) = text.split_once("{{#include ") {
            let (file, rest) = rest.split_once("}}").unwrap();
            assert!(text.starts_with("{{#include ../") && rest == "\n", "{path} has more than what it includes");
            assert!(root().join("docs").join(file).is_file(), "{path} includes {file}, which is not there");
            count += 1;
        }
    }
    assert!(count > 3, "{count}");
}

/// Returns the pieces of code in a document: what is in its lines, and the lines of its blocks.
fn pieces_of_code(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    for (at, part) in text.split("```").enumerate() {
        match at % 2 {
            0 => pieces.extend(part.split('`').skip(1).step_by(2).map(str::to_owned)),
            _ => pieces.extend(part.lines().skip(1).map(|line| line.trim().to_owned())),
        }
    }
    pieces
}

/// Returns the values that these files give a key of this section, such as the names of all `[[bench]]`.
fn names(manifests: &[String], section: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for text in manifests {
        for part in text.split(section).skip(1) {
            let name = part.lines().find_map(|line| line.strip_prefix("name = "));
            names.extend(name.map(|name| name.trim_matches('"').to_owned()));
        }
    }
    names
}

#[test]
fn documented_cargo_commands_name_packages_and_targets() {
    let mut manifests = Vec::new();
    let mut left = vec![root()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !["target", "node_modules", ".git", "src"].contains(&name.as_str()) {
                left.push(path);
            } else if name == "Cargo.toml" {
                manifests.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    let (packages, benches) = (names(&manifests, "[package]"), names(&manifests, "[[bench]]"));
    let (tests, programs) = (names(&manifests, "[[test]]"), names(&manifests, "[[bin]]"));
    assert!(packages.len() > 20 && benches.len() > 5 && tests.len() > 1 && programs.len() > 3, "they are found");
    let alias = source(".cargo/config.toml");
    let mut count = 0;
    let mut documents = documents(&["docs", "examples", "plugins", "sdk", "tests"]);
    documents.extend(AT_ROOT.map(str::to_owned));
    for path in documents {
        for command in pieces_of_code(&source(&path)).iter().filter_map(|piece| piece.strip_prefix("cargo ")) {
            count += 1;
            let words: Vec<_> = command.split(" -- ").next().unwrap().split_whitespace().collect();
            for pair in words.windows(2) {
                let known = match pair[0] {
                    "-p" | "--package" => &packages,
                    "--bench" => &benches,
                    "--test" => &tests,
                    "--bin" => &programs,
                    _ => continue,
                };
                // In capital letters it stands for any of them.
                let is_any = pair[1].chars().all(|c| c.is_ascii_uppercase());
                assert!(is_any || known.contains(pair[1]), "{path}: `cargo {command}`: there is no {}", pair[1]);
            }
            let is_demo = words.first() == Some(&"demo");
            assert!(!is_demo || alias.contains("\ndemo = "), "{path}: `cargo {command}` is no alias");
        }
    }
    assert!(count > 30, "{count}");
}

/// The list in CONTRIBUTING.md has the steps of `.ci/run`, in its order, with their commands.
#[test]
fn contributing_lists_the_steps_of_ci() {
    let (page, script) = (source("CONTRIBUTING.md"), source(".ci/run"));
    let (_, list) = page.split_once("## What CI runs").unwrap();
    let list = list.split("\n## ").next().unwrap();
    let steps = script.lines().filter(|line| line.starts_with("step ") && !line.contains("the end")).count();
    let items: Vec<_> = list.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(items.len(), steps, "{items:?}");
    let mut after = 0;
    for command in pieces_of_code(list).iter().filter(|code| code.starts_with("cargo ") && *code != "cargo deny check")
    {
        let at =
            script[after..].find(command.as_str()).unwrap_or_else(|| panic!(".ci/run does not go on with `{command}`"));
        after += at;
    }
}

/// The tools of that page are those with which `tests/languages` builds a plugin of each kind, by hand.
#[test]
fn authoring_page_has_the_tools_of_its_lane() {
    let (page, lane) = (source("docs/authoring.md"), source("tests/languages/authors.py"));
    let mut count = 0;
    for command in pieces_of_code(&page).iter().filter(|code| code.starts_with("pip install ")) {
        let package = command.rsplit(' ').next().unwrap();
        assert!(lane.contains(&format!("\"{package}\"")), "tests/languages/authors.py does not install `{package}`");
        count += 1;
    }
    assert!(count >= 3, "{count}");
}

#[test]
fn heading_anchors_are_numbered() {
    let text = "# One `two`\n\n```sh\n# no heading\n```\n\n## One two\n\n### [Three](four.md), five\n";
    assert_eq!(anchors(text), BTreeSet::from(["one-two", "one-two-1", "three-five"].map(str::to_owned)));
    assert_eq!(links(text), ["four.md"]);
}
