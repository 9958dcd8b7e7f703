//! The choice of a tool by the words of its name, description and parameters.

use serde_json::{Map, Value};
use shelly_plugin::types::ToolSpec;

use crate::task::{Clause, stem, stems};

/// The properties of a tool that this model understands.
#[derive(Debug)]
pub(crate) struct Tool {
    pub name: String,
    name_stems: Vec<String>,
    description_stems: Vec<String>,
    /// The parameter that takes a path.
    pub path: Option<Param>,
    /// The parameter that takes a text.
    pub text: Option<Param>,
    /// A parameter that takes a number.
    number: Option<Param>,
    /// The only required parameter, if it takes a pattern to search for.
    pattern: Option<String>,
    /// The parameter that names the files in which is searched.
    glob: Option<String>,
    /// Set if the tool has a required parameter for which there is no value.
    has_other: bool,
}

/// A parameter of a tool.
#[derive(Debug)]
pub(crate) struct Param {
    name: String,
    required: bool,
}

const PATHS: &[&str] = &["path", "file", "filename", "filepath", "folder", "directory", "uri"];
const TEXTS: &[&str] = &["text", "content", "input", "string", "body", "document", "data"];
const PATTERNS: &[&str] = &["pattern", "query", "regex"];
const READS: &[&str] = &["read", "content", "text", "cat", "load", "open", "fetch", "view"];
const LISTS: &[&str] = &["list", "ls", "directory", "folder", "entry", "tree"];
const SEARCHES: &[&str] = &["search", "grep", "content", "text", "line"];
const CHANGES: &[&str] =
    &["write", "delete", "remove", "edit", "create", "move", "append", "replace", "rename", "patch", "mkdir"];

impl Tool {
    /// Interprets the description of a tool.
    pub(crate) fn new(spec: &ToolSpec) -> Tool {
        let mut tool = Tool {
            name: spec.name.clone(),
            name_stems: stems(&spec.name),
            description_stems: stems(&spec.description),
            path: None,
            text: None,
            number: None,
            pattern: None,
            glob: None,
            has_other: false,
        };
        let schema: Value = serde_json::from_str(&spec.input_schema).unwrap_or_default();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            tool.add(name, property, required.contains(&name.as_str()));
        }
        let is_text = |name: &str| is(&schema["properties"][name], "string");
        if let [only] = required[..] {
            tool.pattern = (PATTERNS.contains(&only) && is_text(only)).then(|| only.to_owned());
        }
        tool.glob = is_text("glob").then(|| "glob".to_owned());
        tool
    }

    fn add(&mut self, name: &str, property: &Value, required: bool) {
        let words = stems(name);
        let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        let slot = if has(TEXTS) && is(property, "string") {
            &mut self.text
        } else if has(PATHS) && is(property, "string") {
            &mut self.path
        } else if is(property, "integer") || is(property, "number") {
            &mut self.number
        } else {
            self.has_other |= required;
            return;
        };
        match slot {
            // The first parameter of a kind is used, unless a later one is required.
            Some(first) if first.required || !required => self.has_other |= required,
            _ => *slot = Some(Param { name: name.to_owned(), required }),
        }
    }

    fn score(&self, words: &[&str]) -> i32 {
        let in_name = words.iter().filter(|word| self.name_stems.iter().any(|stem| stem == *word)).count();
        let in_description =
            words.iter().filter(|word| self.description_stems.iter().any(|stem| stem == *word)).count();
        3 * in_name as i32 + in_description as i32
    }

    pub(crate) fn knows(&self, word: &str) -> bool {
        self.name_stems.iter().chain(&self.description_stems).any(|stem| stem == word)
    }

    /// Returns the score of this tool for a clause; none if the tool does something else.
    fn fit(&self, clause: &Clause) -> Option<i32> {
        let keywords: Vec<&str> = clause.keywords.iter().map(String::as_str).collect();
        let known = keywords.iter().filter(|word| self.knows(word)).count();
        let required = clause.required.iter().all(|word| self.knows(word));
        // Each word of the tool's name that is not in the clause lowers the score.
        let unsaid = self
            .name_stems
            .iter()
            .filter(|word| {
                !keywords.contains(&word.as_str()) && !["text", "file", "tool", "get"].contains(&word.as_str())
            })
            .count();
        (required && known > 0 && 2 * known >= keywords.len()).then(|| self.score(&keywords) - unsaid as i32)
    }

    fn only_takes_a_path(&self) -> bool {
        let number = self.number.as_ref().is_some_and(|param| param.required);
        let text = self.text.as_ref().is_some_and(|param| param.required);
        self.path.is_some() && !number && !text && !self.has_other
    }

    fn changes_something(&self) -> bool {
        self.name_stems.iter().any(|stem| CHANGES.contains(&stem.as_str()))
    }

    /// Returns the arguments for a file or folder.
    pub(crate) fn for_path(&self, path: &str) -> Value {
        self.arguments(Some(path), None, None)
    }

    /// Returns the arguments that search for a text: in a file, below a folder, whose path ends in `/`, or everywhere.
    pub(crate) fn for_search(&self, text: &str, path: Option<&str>) -> Value {
        let place = path.and_then(|path| match &self.glob {
            Some(glob) if !path.ends_with('/') => Some((glob.clone(), Value::from(path))),
            _ => Some((self.path.as_ref()?.name.clone(), Value::from(path))),
        });
        let pattern = self.pattern.iter().map(|pattern| (pattern.clone(), Value::from(literal(text))));
        Value::Object(pattern.chain(place).collect())
    }

    /// Returns `true` if the tool works on a text or a file that a task names.
    pub(crate) fn is_worker(&self) -> bool {
        let takes_path = self.path.as_ref().is_some_and(|path| path.required || self.text.is_none());
        !self.has_other && self.text.is_some() != takes_path
    }

    /// Returns the arguments for the available values. An optional parameter is set only to a path, a text or a number of
    /// the clause.
    pub(crate) fn arguments(&self, path: Option<&str>, text: Option<&str>, number: Option<u64>) -> Value {
        let mut arguments = Map::new();
        let mut put = |param: &Option<Param>, value: Option<Value>| {
            if let (Some(param), Some(value)) = (param, value) {
                arguments.insert(param.name.clone(), value);
            }
        };
        put(&self.text, text.map(Value::from));
        put(if text.is_some() { &None } else { &self.path }, path.map(Value::from));
        let default = self.number.as_ref().filter(|param| param.required).map(|_| DEFAULT_NUMBER);
        put(&self.number, number.or(default).map(Value::from));
        Value::Object(arguments)
    }
}

/// The number of rows for "the longest lines" without a number.
pub(crate) const DEFAULT_NUMBER: u64 = 5;

/// Returns the regular expression for a text.
fn literal(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

fn is(property: &Value, wanted: &str) -> bool {
    match &property["type"] {
        Value::String(kind) => kind == wanted,
        Value::Array(kinds) => kinds.iter().any(|kind| kind == wanted),
        _ => false,
    }
}

/// Returns the tool that reads the text of a file.
pub(crate) fn reader(tools: &[Tool]) -> Option<&Tool> {
    let readers = tools.iter().filter(|tool| tool.only_takes_a_path() && !tool.changes_something());
    best(readers.map(|tool| (tool, tool.score(READS) - tool.score(LISTS))).filter(|(_, score)| *score > 0))
}

/// Returns the tool that lists the names in a folder.
pub(crate) fn lister(tools: &[Tool]) -> Option<&Tool> {
    let listers = tools.iter().filter(|tool| tool.only_takes_a_path() && !tool.changes_something());
    best(listers.map(|tool| (tool, tool.score(LISTS) - tool.score(READS))).filter(|(_, score)| *score > 0))
}

/// Returns the tool that searches the text of files.
pub(crate) fn searcher(tools: &[Tool]) -> Option<&Tool> {
    let searchers = tools.iter().filter(|tool| tool.pattern.is_some() && !tool.changes_something());
    let searches_text = |tool: &&Tool| ["content", "text", "line"].iter().any(|word| tool.knows(word));
    best(searchers.filter(searches_text).map(|tool| (tool, tool.score(SEARCHES))))
}

/// Returns the tools that could do work on a text or a file. The reader and the lister are none of them.
pub(crate) fn workers(tools: &[Tool]) -> impl Iterator<Item = &Tool> {
    let taken = [reader(tools), lister(tools)].map(|tool| tool.map(|tool| tool.name.as_str()));
    tools.iter().filter(move |tool| !taken.contains(&Some(&tool.name)) && tool.is_worker())
}

/// Returns the tool that does the work of a clause on a text or a file.
pub(crate) fn worker<'a>(tools: &'a [Tool], clause: &Clause) -> Option<&'a Tool> {
    // A tool that the clause names is preferred to all others.
    let fit = |tool: &Tool| if clause.words.contains(&tool.name) { Some(i32::MAX) } else { tool.fit(clause) };
    best(workers(tools).filter_map(|tool| Some((tool, fit(tool)?))))
}

/// Returns the first tool with the highest score.
fn best<'a>(scored: impl Iterator<Item = (&'a Tool, i32)>) -> Option<&'a Tool> {
    scored
        .fold(
            None,
            |best: Option<(&Tool, i32)>, next| if best.is_some_and(|b| b.1 >= next.1) { best } else { Some(next) },
        )
        .map(|(tool, _)| tool)
}

/// Returns the number in a tool's result whose key is about `word`.
pub(crate) fn number_about(result: &Value, word: &str) -> Option<Value> {
    let about = |key: &str| stems(key).iter().any(|part| *part == stem(word));
    result.as_object()?.iter().find(|(key, value)| about(key) && value.is_number()).map(|(_, value)| value.clone())
}
