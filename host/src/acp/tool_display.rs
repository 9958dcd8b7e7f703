//! The title, the kind and the places of a tool call, for an editor to show.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    error::{acts_on_terminal, cut},
    limits,
};

/// The arguments that say most about a call, the most telling first.
const TELLING: [&str; 12] =
    ["path", "file_path", "file", "command", "program", "url", "query", "question", "pattern", "agent", "task", "name"];

/// The arguments that name a file or folder of the project.
const PATHS: [&str; 3] = ["path", "file_path", "file"];

/// Words of tool names, and the kind of the protocol that they stand for. The last word of a name that is here counts.
const KINDS: [(&str, &[&str]); 8] = [
    ("read", &["read", "list", "get", "show", "status", "log", "diff", "stat", "tree", "open", "view", "load", "head"]),
    ("edit", &["write", "edit", "create", "replace", "append", "patch", "insert", "update", "apply", "add", "mkdir"]),
    ("delete", &["delete", "remove", "rm", "unlink"]),
    ("move", &["move", "rename", "copy", "mv"]),
    ("search", &["search", "grep", "find", "glob", "query"]),
    ("execute", &["run", "exec", "execute", "shell", "command", "commit", "call"]),
    ("fetch", &["fetch", "http", "download", "request", "browse", "url"]),
    ("think", &["think", "plan", "delegate", "reflect"]),
];

/// Returns the kind of a tool by its name.
pub(super) fn kind_of(tool: &str) -> &'static str {
    let words = tool.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
    let kind = |word: String| KINDS.iter().find(|(_, words)| words.contains(&&*word)).map(|(kind, _)| *kind);
    // The last word mostly is the verb: `git_status`, `fs_read`, `server__search`.
    words.rev().find_map(kind).unwrap_or("other")
}

/// Returns the title of a call: its tool, and the argument that says most about it.
pub(super) fn title_of(tool: &str, arguments: &Value) -> String {
    let telling = TELLING.iter().find_map(|name| arguments.get(name)?.as_str());
    let only = || match arguments.as_object().map(|all| all.values().collect::<Vec<_>>()).as_deref() {
        Some([only]) => only.as_str(),
        _ => None,
    };
    one_line(&match telling.or_else(only) {
        Some(telling) => format!("{tool} {telling}"),
        None => tool.to_owned(),
    })
}

/// Returns the files that a call is about, as absolute paths.
pub(super) fn places_of(root: &Path, arguments: &Value) -> Vec<PathBuf> {
    let named = PATHS.iter().filter_map(|name| arguments.get(name)?.as_str());
    named
        .filter(|path| !path.is_empty() && path.len() <= limits::CHANGED_PATH_BYTES)
        .map(|path| root.join(path))
        .collect()
}

/// Returns a text on one line, without characters that act on a terminal, cut to the length of a title.
pub(super) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().map(|c| if acts_on_terminal(c) { ' ' } else { c }).collect();
    cut(&line, limits::ACP_TITLE_CHARS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_have_a_title_a_kind_and_places() {
        for (tool, arguments, title, kind, places) in [
            ("fs_read", json!({"path": "a.rs", "line": 1}), "fs_read a.rs", "read", vec!["/p/a.rs"]),
            ("fs_write", json!({"path": "/q/a.rs"}), "fs_write /q/a.rs", "edit", vec!["/q/a.rs"]),
            ("git_status", json!({}), "git_status", "read", vec![]),
            ("exec_run", json!({"command": "cargo\n  test"}), "exec_run cargo test", "execute", vec![]),
            ("docs__search", json!({"words": "x"}), "docs__search x", "search", vec![]),
            ("Odd", json!({"words": "x\u{1b}[2J", "b": 1}), "Odd", "other", vec![]),
            ("Odd", json!({"words": "x\u{1b}[2J"}), "Odd x [2J", "other", vec![]),
            ("odd", json!("no object"), "odd", "other", vec![]),
        ] {
            assert_eq!((title_of(tool, &arguments), kind_of(tool)), (title.to_owned(), kind), "{tool}");
            assert_eq!(places_of(Path::new("/p"), &arguments), places.iter().map(PathBuf::from).collect::<Vec<_>>());
        }
        let long = title_of("fs_read", &json!({"path": "x".repeat(1_000)}));
        assert!(long.chars().count() <= limits::ACP_TITLE_CHARS + 1, "{long}");
    }
}
