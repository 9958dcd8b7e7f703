//! Hides tools from an agent for the whole of its run: the model is not shown them, and a call of one is refused. Hidden
//! is what matches a pattern of `exclude`, and, if `only` has patterns, what matches none of those: that goes for the
//! tools of the host too, such as `delegate`. In a pattern `*` stands for any characters.
//!
//! Params: `{"exclude": [], "only": []}`, which are the defaults and hide nothing. A pattern that no tool matches when the
//! run begins is told to the operator.
//!
//! It looks when the run begins, and again where the agent gets a tool later: from an MCP server whose list changes, or
//! `read_result` after a result was cut.

use serde::Deserialize;
use shelly_plugin::{
    Error, chat, config,
    effect::{Edit, Effect, Moment, Phase, Step, Wake},
    warn,
};

shelly_plugin::export!(effect: ToolScope);

struct ToolScope;

/// Its state once it has looked.
const LOOKED: &[u8] = &[1];

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// What these match is hidden.
    exclude: Vec<String>,
    /// What none of these match is hidden too, if there are any.
    only: Vec<String>,
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        for (name, patterns) in [("exclude", &self.exclude), ("only", &self.only)] {
            if patterns.iter().any(|pattern| pattern.trim().is_empty()) {
                return Err(Error::Invalid(format!(
                    "params: `{name}` has an empty pattern; each must be the name of a tool, such as `fs_write`, or a \
                     pattern, such as `fs_*`"
                )));
            }
        }
        Ok(self)
    }

    /// Those of these tools that are hidden.
    fn hidden(&self, tools: &[String]) -> Vec<String> {
        let is_one = |patterns: &[String], tool: &str| patterns.iter().any(|pattern| matches(pattern, tool));
        let is_hidden =
            |tool: &&String| is_one(&self.exclude, tool) || !self.only.is_empty() && !is_one(&self.only, tool);
        tools.iter().filter(is_hidden).cloned().collect()
    }

    /// The patterns that none of these tools match.
    fn idle(&self, tools: &[String]) -> Vec<&str> {
        let is_idle = |pattern: &&str| !tools.iter().any(|tool| matches(pattern, tool));
        self.exclude.iter().chain(&self.only).map(String::as_str).filter(is_idle).collect()
    }
}

impl Effect for ToolScope {
    fn eval(moment: Moment, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if moment.phase != Phase::BeforeModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        let tools = chat::tools();
        let idle = params.idle(&tools);
        if state != LOOKED && !idle.is_empty() {
            warn!("no tool of {} is called {}", moment.cx.agent, listed(&idle));
        }
        let hidden = params.hidden(&tools);
        let edits = if hidden.is_empty() { Vec::new() } else { vec![Edit::HideTools(hidden)] };
        // What is hidden stays so until this effect is called again, and the host calls it for tools that it has not seen.
        Ok(Step::edits(LOOKED.to_vec(), edits).until(Wake::NEVER))
    }
}

fn listed(patterns: &[&str]) -> String {
    patterns.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(", ")
}

/// Whether all of `text` is as `pattern` says. Each `*` takes as little as it can: only the last one passed is ever taken
/// back, so the time is bounded by the product of the lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut in_text) = (0, 0);
    // After the last star, and where in the text what follows it is tried.
    let mut star: Option<(usize, usize)> = None;
    while in_text < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, in_text));
        } else if pattern.get(at) == Some(&text[in_text]) {
            (at, in_text) = (at + 1, in_text + 1);
        } else if let Some((after, tried)) = star {
            (at, in_text) = (after, tried + 1);
            star = Some((after, tried + 1));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn tool_scope_star_matches_any_characters() {
        for (pattern, text, is_match) in [
            ("fs_read", "fs_read", true),
            ("fs_read", "fs_read_lines", false),
            ("fs_read", "fs_rea", false),
            ("fs_*", "fs_read", true),
            ("fs_*", "fs_", true),
            ("fs_*", "git_fs_", false),
            ("*_read", "fs_read", true),
            ("*_read", "fs_read_read", true),
            ("*_read", "fs_reads", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "ba", false),
            ("a**c", "abc", true),
            ("*", "", true),
            ("*", "x", true),
            ("a", "", false),
            ("a-b*", "a-b.c", true),
            ("*ab", "aab", true),
        ] {
            assert_eq!(matches(pattern, text), is_match, "{pattern} {text}");
        }
        assert!(!matches(&"*a".repeat(2_000), &"a".repeat(64)));
    }

    #[test]
    fn tool_scope_hides_excluded_and_unlisted_tools() {
        let tools = texts(&["fs_read", "fs_write", "git_log", "task_complete"]);
        for (exclude, only, hidden, idle) in [
            (&[][..], &[][..], &[][..], &[][..]),
            (&["fs_write"], &[], &["fs_write"], &[]),
            (&["fs_*"], &[], &["fs_read", "fs_write"], &[]),
            (&["exec_*"], &[], &[], &["exec_*"]),
            (&[], &["fs_*", "task_complete"], &["git_log"], &[]),
            (&["*_write"], &["fs_*", "http_*"], &["fs_write", "git_log", "task_complete"], &["http_*"]),
            (&["*"], &[], &["fs_read", "fs_write", "git_log", "task_complete"], &[]),
        ] {
            let params = Params { exclude: texts(exclude), only: texts(only) }.check().unwrap();
            assert_eq!(params.hidden(&tools), hidden, "{exclude:?} {only:?}");
            assert_eq!(params.idle(&tools), idle, "{exclude:?} {only:?}");
        }
    }

    #[test]
    fn tool_scope_empty_pattern_is_refused() {
        for (exclude, only, names) in [(&["a", ""][..], &[][..], "`exclude`"), (&[], &[" "], "`only`")] {
            let error = Params { exclude: texts(exclude), only: texts(only) }.check().err().unwrap();
            assert!(error.message().contains(names), "{error:?}");
        }
    }
}
