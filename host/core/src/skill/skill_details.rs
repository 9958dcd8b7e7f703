//! The front matter of a skill.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    error::{acts_on_terminal, is_unseen},
    limits,
};

/// The front matter. Unknown keys are ignored, since skills of other tools have more.
#[derive(Default, Deserialize)]
pub(super) struct SkillFrontMatter {
    pub name: Option<String>,
    pub description: Option<String>,
    license: Option<Value>,
    compatibility: Option<Value>,
    metadata: Option<Value>,
    #[serde(rename = "allowed-tools")]
    allowed_tools: Option<Value>,
}

/// The optional parts of a skill's front matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillDetails {
    /// The licence, or the name of the file with its text.
    pub license: Option<String>,
    /// The requirements of the skill, such as programs or access to a network, on one line.
    pub compatibility: Option<String>,
    /// Properties for programs that know them.
    pub metadata: BTreeMap<String, String>,
    /// The tools for which the skill is written, as its author names them. The list is advice to the model: it grants
    /// nothing.
    pub allowed_tools: Vec<String>,
}

/// A part of a skill that does not follow the Agent Skills format, and what to change.
#[derive(Debug)]
pub(super) struct FormatMistake {
    pub problem: String,
    pub mend: &'static str,
}

impl FormatMistake {
    pub(super) fn new(problem: impl Into<String>, mend: &'static str) -> Self {
        Self { problem: problem.into(), mend }
    }
}

impl SkillDetails {
    /// Reads the optional parts.
    pub(super) fn of(head: &SkillFrontMatter) -> Result<Self, FormatMistake> {
        Ok(Self {
            license: line_of("license", head.license.as_ref())?,
            compatibility: line_of("compatibility", head.compatibility.as_ref())?,
            metadata: metadata(head.metadata.as_ref())?,
            allowed_tools: allowed_tools(head.allowed_tools.as_ref())?,
        })
    }
}

/// Puts a text on one line.
pub(super) fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns `true` for a character that a line for models and people must not have: one that a terminal acts on, or that
/// nobody sees.
pub(super) fn is_hidden(c: char) -> bool {
    acts_on_terminal(c) || is_unseen(c)
}

/// Reads a short text; `None` if it is missing or empty.
fn line_of(key: &str, value: Option<&Value>) -> Result<Option<String>, FormatMistake> {
    let Some(value) = value else { return Ok(None) };
    let Some(text) = value.as_str() else {
        return Err(FormatMistake::new(format!("`{key}` is not a text"), "write it in quotes on one line"));
    };
    let text = on_one_line(text);
    check_line(key, &text)?;
    Ok((!text.is_empty()).then_some(text))
}

fn check_line(key: &str, text: &str) -> Result<(), FormatMistake> {
    let (chars, most) = (text.chars().count(), limits::SKILL_NOTE_CHARS);
    if chars > most {
        let problem = format!("`{key}` has {chars} characters, the maximum is {most}");
        return Err(FormatMistake::new(problem, "shorten it, and put the rest into the text of the skill"));
    }
    match text.contains(is_hidden) {
        true => Err(FormatMistake::new(format!("`{key}` has invisible characters"), "remove them")),
        false => Ok(()),
    }
}

/// Reads properties with values that are texts, numbers or booleans. The size of the file bounds them.
fn metadata(value: Option<&Value>) -> Result<BTreeMap<String, String>, FormatMistake> {
    let mistake = |problem: &str| FormatMistake::new(problem, "write `metadata` as keys with texts as their values");
    let Some(value) = value else { return Ok(BTreeMap::new()) };
    let entries = value.as_object().ok_or_else(|| mistake("`metadata` is not a map"))?;
    let text_of = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        Value::Number(_) | Value::Bool(_) => Ok((key.clone(), value.to_string())),
        _ => Err(mistake("a value in `metadata` is not a text")),
    };
    entries.iter().map(text_of).collect()
}

/// Reads the names of tools: a text in which blanks or commas separate them, or a list.
fn allowed_tools(value: Option<&Value>) -> Result<Vec<String>, FormatMistake> {
    let not_names =
        || FormatMistake::new("`allowed-tools` is not a list of names", "write the names with blanks between");
    let tools: Vec<String> = match value {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => split_tools(text),
        Some(Value::Array(list)) => {
            let names = list.iter().map(|name| name.as_str().map(on_one_line));
            names.collect::<Option<Vec<_>>>().ok_or_else(not_names)?
        }
        Some(_) => return Err(not_names()),
    };
    let most = limits::SKILL_ALLOWED_TOOLS;
    if tools.len() > most {
        let problem = format!("`allowed-tools` names {} tools, the maximum is {most}", tools.len());
        return Err(FormatMistake::new(problem, "leave the list out if the skill needs so many"));
    }
    tools.iter().try_for_each(|tool| check_line("allowed-tools", tool))?;
    Ok(tools.into_iter().filter(|tool| !tool.is_empty()).collect())
}

/// Splits names at blanks and commas, but not within parentheses, as in `Bash(git add:*)`.
fn split_tools(text: &str) -> Vec<String> {
    let (mut tools, mut current, mut depth) = (Vec::new(), String::new(), 0_usize);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c.is_whitespace() || c == ',') {
            tools.push(std::mem::take(&mut current));
        } else {
            current.push(c);
        }
    }
    tools.push(current);
    tools.retain(|tool| !tool.is_empty());
    tools
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str) -> Result<SkillDetails, String> {
        let head: SkillFrontMatter = serde_saphyr::from_str(head).unwrap();
        SkillDetails::of(&head).map_err(|mistake| mistake.problem)
    }

    #[test]
    fn optional_parts_of_a_skill_are_read() {
        let details = read(
            "license: Apache-2.0\ncompatibility: >\n  needs git\n  and a network\nmetadata: {author: me, version: 1.5, \
             old: true}\n\
             allowed-tools: Bash(git add:*) Read,  Write\n",
        )
        .unwrap();
        assert_eq!(details.license.as_deref(), Some("Apache-2.0"));
        assert_eq!(details.compatibility.as_deref(), Some("needs git and a network"));
        let metadata: Vec<_> = details.metadata.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(metadata, [("author", "me"), ("old", "true"), ("version", "1.5")]);
        assert_eq!(details.allowed_tools, ["Bash(git add:*)", "Read", "Write"]);
        assert_eq!(read("allowed-tools: [a, 'b c']\nlicense:\n").unwrap().allowed_tools, ["a", "b c"]);
        assert_eq!(read("other: 1\n").unwrap(), SkillDetails::default());
    }

    #[test]
    fn optional_parts_of_a_skill_are_bounded() {
        let note = |chars: usize| format!("compatibility: {}\n", "x".repeat(chars));
        let tools = |count: usize| format!("allowed-tools: {}\n", "t ".repeat(count));
        assert!(read(&note(limits::SKILL_NOTE_CHARS)).is_ok());
        assert!(read(&tools(limits::SKILL_ALLOWED_TOOLS)).is_ok());
        for (head, expected) in [
            (note(limits::SKILL_NOTE_CHARS + 1), "`compatibility` has 501 characters, the maximum is 500"),
            (tools(limits::SKILL_ALLOWED_TOOLS + 1), "`allowed-tools` names 65 tools, the maximum is 64"),
            ("license: [a]\n".into(), "`license` is not a text"),
            ("license: \"a\\eb\"\n".into(), "`license` has invisible characters"),
            ("allowed-tools: \"a\\u200bb\"\n".into(), "`allowed-tools` has invisible characters"),
            ("allowed-tools: {a: b}\n".into(), "`allowed-tools` is not a list of names"),
            ("allowed-tools: [[a]]\n".into(), "`allowed-tools` is not a list of names"),
            ("metadata: [a]\n".into(), "`metadata` is not a map"),
            ("metadata: {a: [b]}\n".into(), "a value in `metadata` is not a text"),
        ] {
            assert_eq!(read(&head).unwrap_err(), expected, "{head}");
        }
    }
}
