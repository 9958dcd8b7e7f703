//! Middleware around tool calls.

use serde_json::{Value, json};
use shelly_host::{
    chat::{ToolCall, ToolHints, ToolResultContent},
    error::Fault,
    model::ScriptedCompleter,
    plugin::PluginToolMiddleware,
    tool::{ToolCallVerdict, ToolMiddleware, ToolTarget},
};

use super::{agent, cx, plugin, run};
use crate::{
    plugin::{REDACT_RESULTS, TOOL_POLICY},
    script::tool,
};

async fn middleware(component: &str, params: Value) -> PluginToolMiddleware {
    PluginToolMiddleware::new(&plugin(component, params).await).unwrap()
}

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] }
}

#[tokio::test]
async fn tool_policy_plugin_applies_the_first_matching_rule() {
    let rules = json!({
        "rules": [
            { "tools": "git_*", "arguments": { "branch": "^main$" }, "action": "deny", "reason": "main is kept" },
            { "tools": "git_*", "action": "ask" },
            { "read_only": true, "action": "allow" },
            { "origin": "web", "action": "answer", "answer": "There is no network." },
        ],
        "default": "deny",
    });
    let policy = middleware(TOOL_POLICY, rules).await;
    let writes = ToolHints::default();
    let reads = ToolHints { read_only: true, ..writes };
    let deny = |why: &str| ToolCallVerdict::Deny(why.into());
    for (call, origin, hints, expected) in [
        (
            call("git_push", json!({ "branch": "main" })),
            "git",
            writes,
            deny("`git_push` is denied by `rules[0]` (main is kept). Continue without this call."),
        ),
        (
            call("git_push", json!({ "branch": "topic" })),
            "git",
            writes,
            ToolCallVerdict::Ask {
                text: "`rules[1]` requires the approval of a person for `git_push`. Allow this call?".into(),
                topic: "rules[1]: git_push".into(),
            },
        ),
        (call("read", json!({})), "files", reads, ToolCallVerdict::Allow),
        (
            call("fetch", json!({})),
            "web",
            writes,
            ToolCallVerdict::Answer(vec![ToolResultContent::Text("There is no network.".into())]),
        ),
        (
            call("write", json!({})),
            "files",
            writes,
            deny("`write` is denied by `default`. Continue without this call."),
        ),
    ] {
        let decision = policy.before(&cx(), &call, &ToolTarget { origin: origin.into(), hints }).await.unwrap();
        assert_eq!(decision.verdict, expected, "{call:?}");
        assert_eq!(decision.arguments, None);
    }
}

#[tokio::test]
async fn denied_call_is_not_made() {
    let made = || ScriptedCompleter::calls(&[("a", "echo", r#"{"text":"x"}"#)]);
    for (params, heard) in [
        (json!({ "default": "deny" }), "`echo` is denied by `default`"),
        (json!({ "rules": [{ "tools": "echo", "action": "answer", "answer": "later" }] }), "later"),
        (json!({ "rules": [{ "tools": "other", "action": "deny" }] }), "made"),
        (json!({ "rules": [] }), "the call was denied because middleware"),
    ] {
        let (model, mut helper) = agent([made(), ScriptedCompleter::text("done")]);
        helper = helper.with_tool(tool("echo", |_| async { Ok("made".into()) }));
        helper = helper.with_tool_middleware(middleware(TOOL_POLICY, params).await);
        run(&helper).await.0.unwrap();
        let requests = model.requests();
        let last = requests.last().unwrap().messages.iter().last().unwrap();
        let said = format!("{:?}", last.message.parts);
        assert!(said.contains(heard), "{said}");
        assert!(heard == "made" || !said.contains("\"made\""), "{said}");
    }
}

#[tokio::test]
async fn redact_results_plugin_redacts_tool_results() {
    let redact = middleware(REDACT_RESULTS, json!({ "what": ["emails"] })).await;
    let text = |text: &str| ToolResultContent::Text(text.into());
    let failed = Fault::invalid("ann@example.com is unknown");
    for (outcome, expected) in [
        (Ok(vec![text("all well")]), None),
        (Ok(vec![text("ann@example.com"), text("x")]), Some(vec![text("[redacted]"), text("x")])),
        (
            Ok(vec![ToolResultContent::Json(r#"{"to": "ann@example.com"}"#.into())]),
            Some(vec![ToolResultContent::Json(r#"{"to": "[redacted]"}"#.into())]),
        ),
        (Err(&failed), Some(vec![text("[redacted] is unknown")])),
    ] {
        let outcome = outcome.as_ref().map(|content| &content[..]).map_err(|fault| *fault);
        let clean = redact.after(&cx(), &call("mail", json!({})), outcome, vec![]).await.unwrap();
        assert_eq!(clean, expected);
    }
}

#[tokio::test]
async fn params_that_make_no_sense_are_told_of() {
    let target = ToolTarget { origin: "host".into(), hints: ToolHints::default() };
    for (params, says) in [
        (json!({}), "the policy decides nothing"),
        (json!({ "rules": [{ "action": "forbid" }] }), "`rules[0].action`"),
        (json!({ "rules": [{ "action": "answer" }] }), "the key `answer` and the action `answer` need each other"),
    ] {
        let policy = middleware(TOOL_POLICY, params).await;
        let fault = policy.before(&cx(), &call("t", json!({})), &target).await.unwrap_err();
        assert!(fault.to_string().contains(says), "{fault}");
    }
    let redact = middleware(REDACT_RESULTS, json!({ "what": [] })).await;
    let fault = redact.after(&cx(), &call("t", json!({})), Ok(&[]), vec![]).await.unwrap_err();
    assert!(fault.to_string().contains("nothing would be redacted"), "{fault}");
}
