//! An effect that hides tools from an agent for its whole run: the model does not see them, and calls of them are
//! refused. A tool is hidden if it matches a pattern of `exclude`, or if `only` has patterns and it matches none of them.
//! This includes tools of the host, such as `delegate`. In a pattern `*` stands for any characters.
//!
//! Params, with their defaults: `{"exclude": [], "only": []}`, which hide nothing. A pattern that matches no tool when
//! the run begins is logged as a warning for the operator.
//!
//! The effect is called when the run begins, and again when the agent gets another tool: from an MCP server whose list
//! changes, or `read_result` after a result was cut.

use serde::Deserialize;
use shelly_plugin::{
    Error, chat, config,
    effect::{Edit, Effect, EffectInput, Phase, Step, Wake},
    warn,
};

shelly_plugin::export!(effect: ToolScope);

struct ToolScope;

/// The state after the first call.
const LOOKED: &[u8] = &[1];

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The patterns of tools that are hidden.
    exclude: Vec<String>,
    /// The patterns of tools that stay visible; if there are any, all other tools are hidden.
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

    /// Returns the hidden ones of these tools.
    fn hidden(&self, tools: &[String]) -> Vec<String> {
        let is_one = |patterns: &[String], tool: &str| patterns.iter().any(|pattern| matches(pattern, tool));
        let is_hidden =
            |tool: &&String| is_one(&self.exclude, tool) || !self.only.is_empty() && !is_one(&self.only, tool);
        tools.iter().filter(is_hidden).cloned().collect()
    }

    /// Returns the patterns that match none of these tools.
    fn idle(&self, tools: &[String]) -> Vec<&str> {
        let is_idle = |pattern: &&str| !tools.iter().any(|tool| matches(pattern, tool));
        self.exclude.iter().chain(&self.only).map(String::as_str).filter(is_idle).collect()
    }
}

impl Effect for ToolScope {
    fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if input.phase != Phase::BeforeModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        let tools = chat::tools();
        let idle = params.idle(&tools);
        if state != LOOKED && !idle.is_empty() {
            warn!("no tool of {} matches {}", input.cx.agent, listed(&idle));
        }
        let hidden = params.hidden(&tools);
        let edits = if hidden.is_empty() { Vec::new() } else { vec![Edit::HideTools(hidden)] };
        // Hidden tools stay hidden until the effect is called again, and the host calls it for tools that it has not
        // seen.
        Ok(Step::edits(LOOKED.to_vec(), edits).until(Wake::NEVER))
    }
}

fn listed(patterns: &[&str]) -> String {
    patterns.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(", ")
}

/// Returns `true` if the whole `text` matches `pattern`. Each `*` matches as little as possible, and only the last one is
/// ever extended, so the time is bounded by the product of the lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut in_text) = (0, 0);
    // The position after the last star, and the position in the text at which the rest was tried.
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
