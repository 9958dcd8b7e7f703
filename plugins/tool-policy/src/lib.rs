//! A tool middleware that decides on each tool call by rules. The first rule that matches decides; if none matches,
//! `default` does.
//!
//! Params: `{"rules": [{"tools": "git_*", "action": "ask"}], "default": "allow"}`, with 1 to 256 rules. `default` is
//! `allow`, `ask` or `deny`; its own default is `allow`. A rule matches if all of its conditions hold:
//!
//! | key | condition |
//! |---|---|
//! | `tools` | the tool's name matches, with `*` and `?` |
//! | `origin` | the tool's origin matches, with `*` and `?`: a plugin's id, or `host` |
//! | `read_only` | the tool is, or is not, declared as `read-only` |
//! | `arguments` | each regular expression matches somewhere in the argument of its name, which must exist |
//!
//! An argument is named by its key, or by a JSON pointer (`/files/0/path`) if the name begins with `/`. A text is matched
//! as it is, any other value as JSON without whitespace. Patterns match anywhere: write `^` and `$` where that matters,
//! such as in rules that allow. If a rule has `arguments`, a call is denied if an object in its arguments has a key
//! twice, because the tool may read the other value.
//!
//! The `action` of a rule is one of four. `allow` makes the call. `deny` refuses it, and the model receives the position
//! of the rule and its `reason`. `ask` shows `reason` to a person, who decides, optionally for all calls of that tool by
//! the rule. `answer` gives the model the rule's `answer` in place of a result.

use std::collections::BTreeMap;

use guest_kit::{Glob, Pattern, at_most, bad};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use shelly_plugin::{
    Content, Error, config, text,
    tool_middleware::{Decision, Question, Target, ToolMiddleware, Verdict},
    types::{RunContext, ToolCall, ToolHints},
};

mod twice;

use twice::Twice;

shelly_plugin::export!(tool_middleware: ToolPolicy);

const MOST_RULES: usize = 256;

/// The maximum number of characters of a key that are shown.
const MOST_SHOWN: usize = 64;

struct ToolPolicy;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    /// The rules, in order: the first that matches decides.
    #[serde(default)]
    rules: Vec<Rule>,
    /// The action if no rule matches.
    #[serde(default)]
    default: Action,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    tools: Option<Glob>,
    origin: Option<Glob>,
    read_only: Option<bool>,
    #[serde(default)]
    arguments: BTreeMap<String, Pattern>,
    action: Action,
    reason: Option<String>,
    answer: Option<String>,
}

#[derive(Deserialize, Debug, Clone, Copy, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Action {
    #[default]
    Allow,
    Ask,
    Deny,
    Answer,
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        at_most("rules", self.rules.len(), MOST_RULES)?;
        if self.default == Action::Answer {
            return Err(bad("`default` is `answer`; use `allow`, `ask` or `deny`"));
        }
        if self.rules.is_empty() && self.default == Action::Allow {
            return Err(bad("the policy decides nothing; write `rules`, or set `default` to `ask` or `deny`"));
        }
        for (at, rule) in self.rules.iter().enumerate() {
            if (rule.action == Action::Answer) != rule.answer.is_some() {
                return Err(bad(format_args!(
                    "`rules[{at}]`: the key `answer` and the action `answer` need each other"
                )));
            }
            if rule.reason.is_some() && matches!(rule.action, Action::Allow | Action::Answer) {
                return Err(bad(format_args!("`rules[{at}]`: `reason` has no effect with this action; leave it out")));
            }
        }
        Ok(self)
    }

    fn decide(&self, call: &ToolCall, target: &Target) -> Result<Verdict, Error> {
        // The arguments are parsed only if a rule needs them.
        let mut arguments = None;
        for (at, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.is_for(&call.name, target)) {
            if !rule.arguments.is_empty() {
                let arguments = match &mut arguments {
                    Some(arguments) => arguments,
                    none => {
                        if let Twice(Some(key)) = parsed(call)? {
                            return Ok(Verdict::Deny(ambiguous(&call.name, &key)));
                        }
                        none.insert(parsed(call)?)
                    }
                };
                if !rule.fits(arguments) {
                    continue;
                }
            }
            return Ok(rule.verdict(&format!("rules[{at}]"), &call.name));
        }
        let default = Rule {
            tools: None,
            origin: None,
            read_only: None,
            arguments: BTreeMap::new(),
            action: self.default,
            reason: None,
            answer: None,
        };
        Ok(default.verdict("default", &call.name))
    }
}

fn parsed<T: DeserializeOwned>(call: &ToolCall) -> Result<T, Error> {
    serde_json::from_str(&call.arguments)
        .map_err(|error| Error::Invalid(format!("the arguments of `{}` are not valid JSON: {error}", call.name)))
}

fn ambiguous(tool: &str, key: &str) -> String {
    let key = text::short(key, MOST_SHOWN);
    format!("`{tool}` is denied: its arguments have the duplicate key {key:?}. Repeat the call with each key once.")
}

impl Rule {
    /// Returns `true` if all conditions hold that do not depend on the arguments.
    fn is_for(&self, tool: &str, target: &Target) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.matches(tool))
            && self.origin.as_ref().is_none_or(|origin| origin.matches(&target.origin))
            && self.read_only.is_none_or(|read_only| read_only == target.hints.contains(ToolHints::READ_ONLY))
    }

    fn fits(&self, arguments: &Value) -> bool {
        self.arguments.iter().all(|(name, pattern)| {
            let value = match name.starts_with('/') {
                true => arguments.pointer(name),
                false => arguments.get(name),
            };
            value.is_some_and(|value| match value {
                Value::String(text) => pattern.matches(text),
                value => pattern.matches(&value.to_string()),
            })
        })
    }

    /// Returns the rule's verdict; `place` names the rule.
    fn verdict(&self, place: &str, tool: &str) -> Verdict {
        let reason = self.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        match self.action {
            Action::Allow => Verdict::Allow,
            Action::Deny => {
                Verdict::Deny(format!("`{tool}` is denied by `{place}`{reason}. Continue without this call."))
            }
            Action::Ask => {
                let text =
                    format!("`{place}` requires the approval of a person for `{tool}`{reason}. Allow this call?");
                Verdict::Ask(Question { text, topic: format!("{place}: {tool}") })
            }
            Action::Answer => Verdict::Answer(vec![Content::Text(self.answer.clone().unwrap_or_default())]),
        }
    }
}

impl ToolMiddleware for ToolPolicy {
    fn before(_cx: RunContext, call: ToolCall, target: Target) -> Result<Decision, Error> {
        let verdict = config::<Params>()?.check()?.decide(&call, &target)?;
        Ok(Decision { verdict, arguments: None, state: Vec::new() })
    }

    fn after(
        _cx: RunContext,
        _call: ToolCall,
        _outcome: Result<Vec<Content>, Error>,
        _state: Vec<u8>,
    ) -> Result<Option<Vec<Content>>, Error> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params(json: Value) -> Result<Params, String> {
        let params: Params = serde_json::from_value(json).map_err(|error| error.to_string())?;
        params.check().map_err(|error| error.message().to_owned())
    }

    fn decide(params: &Params, tool: &str, arguments: Value, origin: &str, hints: ToolHints) -> String {
        let call = ToolCall { id: "c".into(), name: tool.into(), arguments: arguments.to_string(), meta: Vec::new() };
        match params.decide(&call, &Target { origin: origin.into(), hints }).unwrap() {
            Verdict::Allow => "allow".into(),
            Verdict::Ask(question) => format!("ask {}: {}", question.topic, question.text),
            Verdict::Answer(content) => format!("answer {content:?}"),
            Verdict::Deny(why) => format!("deny {why}"),
        }
    }

    #[test]
    fn tool_policy_applies_the_first_matching_rule() {
        let params = params(json!({
            "rules": [
                { "tools": "fs_*", "arguments": { "path": "^/etc(/|$)" }, "action": "deny", "reason": "system files" },
                { "tools": "fs_*", "read_only": true, "action": "allow" },
                { "tools": "exec_run", "arguments": { "/args/0": "^-rf$" }, "action": "deny" },
                { "tools": "exec_run", "arguments": { "count": "^3$", "deep": "\"a\":1" }, "action": "allow" },
                { "tools": "weather", "action": "answer", "answer": "It rains." },
                { "origin": "git", "action": "ask", "reason": "it is shared" },
            ],
            "default": "deny",
        }))
        .unwrap();
        let (none, read_only) = (ToolHints::empty(), ToolHints::READ_ONLY);
        for (tool, arguments, origin, hints, says) in [
            (
                "fs_read",
                json!({ "path": "/etc/passwd" }),
                "files",
                read_only,
                "deny `fs_read` is denied by `rules[0]` (system files).",
            ),
            ("fs_read", json!({ "path": "/etcetera" }), "files", read_only, "allow"),
            ("fs_write", json!({ "path": "/home" }), "files", none, "deny `fs_write` is denied by `default`."),
            ("fs_write", json!({}), "files", none, "deny `fs_write` is denied by `default`."),
            ("exec_run", json!({ "args": ["-rf"] }), "exec", none, "deny `exec_run` is denied by `rules[2]`."),
            ("exec_run", json!({ "args": "-rf" }), "exec", none, "deny `exec_run` is denied by `default`."),
            ("exec_run", json!({ "count": 3, "deep": { "a": 1 } }), "exec", none, "allow"),
            ("exec_run", json!({ "count": 3 }), "exec", none, "deny `exec_run` is denied by `default`."),
            ("weather", json!({}), "web", none, "answer [Content::Text(\"It rains.\")]"),
            (
                "git_push",
                json!({}),
                "git",
                none,
                "ask rules[5]: git_push: `rules[5]` requires the approval of a person for `git_push` (it is shared).",
            ),
        ] {
            let verdict = decide(&params, tool, arguments.clone(), origin, hints);
            assert!(verdict.starts_with(says), "{tool} {arguments}: {verdict}");
        }
    }

    #[test]
    fn tool_policy_rejects_unparsable_arguments_only_if_read() {
        let rules = |rule: Value| params(json!({ "rules": [rule] })).unwrap();
        let call = ToolCall { id: "c".into(), name: "t".into(), arguments: "{".into(), meta: Vec::new() };
        let target = Target { origin: "host".into(), hints: ToolHints::empty() };
        let reads = rules(json!({ "arguments": { "a": "x" }, "action": "deny" }));
        assert!(reads.decide(&call, &target).unwrap_err().message().contains("not valid JSON"));
        let reads_not = rules(json!({ "tools": "t", "action": "deny" }));
        assert!(matches!(reads_not.decide(&call, &target), Ok(Verdict::Deny(_))));
    }

    #[test]
    fn tool_policy_denies_ambiguous_arguments() {
        let rule = json!({ "tools": "t", "arguments": { "path": "^/tmp/" }, "action": "allow" });
        let params = params(json!({ "rules": [rule], "default": "deny" })).unwrap();
        let target = Target { origin: "host".into(), hints: ToolHints::empty() };
        for (tool, arguments, says) in [
            ("t", r#"{"path": "/tmp/a"}"#, None),
            ("t", r#"{"path": "/etc/passwd", "path": "/tmp/a"}"#, Some(r#"have the duplicate key "path""#)),
            ("t", r#"{"path": "/tmp/a", "path": "/tmp/a"}"#, Some(r#"have the duplicate key "path""#)),
            ("t", r#"{"p\u0061th": "/etc/passwd", "path": "/tmp/a"}"#, Some(r#"have the duplicate key "path""#)),
            ("t", r#"{"path": "/tmp/a", "more": [{"x\ny": 1, "x\ny": 2}]}"#, Some(r#"have the duplicate key "x\ny""#)),
            // No rule checks these arguments.
            ("u", r#"{"path": 1, "path": 2}"#, Some("is denied by `default`")),
        ] {
            let call = ToolCall { id: "c".into(), name: tool.into(), arguments: arguments.into(), meta: Vec::new() };
            match (params.decide(&call, &target).unwrap(), says) {
                (Verdict::Allow, None) => {}
                (Verdict::Deny(why), Some(says)) => assert!(why.contains(says), "{arguments}: {why}"),
                (verdict, _) => panic!("{arguments}: {verdict:?}"),
            }
        }
    }

    #[test]
    fn senseless_params_are_refused() {
        for (json, says) in [
            (json!({}), "the policy decides nothing"),
            (json!({ "default": "answer" }), "`default` is `answer`"),
            (json!({ "rules": vec![json!({ "action": "deny" }); 257] }), "257 entries"),
            (json!({ "rules": [{ "action": "answer" }] }), "`rules[0]`: the key `answer` and"),
            (json!({ "rules": [{ "action": "deny", "answer": "x" }] }), "`rules[0]`: the key `answer` and"),
            (json!({ "rules": [{ "action": "allow", "reason": "x" }] }), "`reason` has no effect"),
            (json!({ "rules": [{ "action": "forbid" }] }), "unknown variant `forbid`"),
            (json!({ "rules": [{ "tool": "x", "action": "deny" }] }), "unknown field `tool`"),
            (json!({ "rules": [{ "arguments": { "a": "(" }, "action": "deny" }] }), "invalid regular expression"),
        ] {
            let error = params(json).err().unwrap();
            assert!(error.contains(says), "{error}");
        }
    }
}
