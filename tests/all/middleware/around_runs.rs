//! Middleware around runs.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use shelly_host::{
    agent::{AfterRunDecision, BeforeRunDecision, RunMiddleware, RunOutcome},
    chat::{Message, Role},
    error::Fault,
    event::{Event, EventSink},
    model::{ScriptedCompleter, Usage},
    plugin::PluginRunMiddleware,
};
use tokio::task::JoinSet;

use super::{agent, busy, cx, plugin, run};
use crate::plugin::{INPUT_GUARDRAIL, OUTPUT_FORMAT, OUTPUT_GUARDRAIL, RATE_LIMIT, REDACT};

async fn middleware(component: &str, params: Value) -> PluginRunMiddleware {
    PluginRunMiddleware::new(&plugin(component, params).await).unwrap()
}

async fn before(middleware: &PluginRunMiddleware, task: &str) -> Result<BeforeRunDecision, Fault> {
    middleware.before(&cx(), &[Message::user(task)]).await
}

async fn after(middleware: &PluginRunMiddleware, reply: Result<&str, Fault>, attempt: u32) -> AfterRunDecision {
    let reply = reply.map(|text| Message::text(Role::Assistant, "helper", text));
    let outcome = RunOutcome { reply, usage: Usage::default(), duration: Duration::ZERO, attempt };
    middleware.after(&cx(), &outcome, vec![]).await.unwrap()
}

/// Returns a decision as a word with its details.
fn told(decision: AfterRunDecision) -> String {
    match decision {
        AfterRunDecision::Accept => "accept".into(),
        AfterRunDecision::Replace(message) => format!("replace {}", message.text_content()),
        AfterRunDecision::Reject(fault) => format!("reject {fault}"),
        AfterRunDecision::Retry { feedback, delay, .. } => {
            assert_eq!(delay, Duration::ZERO);
            format!("retry {}", feedback.unwrap_or_default())
        }
    }
}

#[tokio::test]
async fn output_guardrail_plugin_retries_and_then_rejects() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    for (params, answer, attempt, expected) in [
        (json!({ "deny": ["s.cret"] }), "fine", 0, "accept"),
        (
            json!({ "deny": ["s.cret"] }),
            "a secret",
            1,
            "retry Your answer was not accepted:\n- it must not contain `secret`",
        ),
        (json!({ "deny": ["s.cret"] }), "a secret", 2, "reject the answer breaks `deny[0]` after 3 attempts"),
        (json!({ "deny": ["s.cret"], "retries": 0 }), "a secret", 0, "reject the answer breaks `deny[0]`"),
        (json!({ "require": ["^Dear"] }), "Hi", 0, "retry Your answer was not accepted:\n- it must contain a text"),
        (json!({ "min_length": 3 }), "äö", 0, "retry Your answer was not accepted:\n- it has 2 characters"),
        (json!({ "max_length": 3 }), "äöü", 0, "accept"),
        (json!({ "json_schema": schema }), "```json\n{\"n\": 1}\n```", 0, "accept"),
        (
            json!({ "json_schema": schema }),
            "{\"n\": 1.5}",
            0,
            "retry Your answer was not accepted:\n- `/n` must be of type",
        ),
        (
            json!({ "json_schema": schema }),
            "It is 1.",
            0,
            "retry Your answer was not accepted:\n- it must be one valid JSON",
        ),
    ] {
        let guard = middleware(OUTPUT_GUARDRAIL, params).await;
        let decision = told(after(&guard, Ok(answer), attempt).await);
        assert!(decision.starts_with(expected), "{answer}: {decision}");
    }
    let guard = middleware(OUTPUT_GUARDRAIL, json!({ "min_length": 3 })).await;
    assert_eq!(told(after(&guard, Err(busy()), 0).await), "accept");
}

#[tokio::test]
async fn output_guardrail_feedback_leads_to_a_valid_answer() {
    let (_, mut helper) = agent([ScriptedCompleter::text("It is one."), ScriptedCompleter::text("{\"n\": 1}")]);
    helper = helper.with_middleware(middleware(OUTPUT_GUARDRAIL, json!({ "json_schema": { "type": "object" } })).await);
    let (answer, said) = run(&helper).await;
    assert_eq!(answer.unwrap().message.text_content(), "{\"n\": 1}");
    assert!(said[2].starts_with("Your answer was not accepted") && said[2].ends_with("corrected."), "{said:?}");
}

#[tokio::test]
async fn input_guardrail_plugin_rejects_tasks_before_any_request() {
    let params = json!({ "deny": ["(?i)hush"], "require": ["\\?$"], "max_length": 20 });
    for (task, expected) in [
        ("How late is it?", None),
        ("Is Hush known?", Some("the rule `deny[0]`")),
        ("Tell me.", Some("the rule `require[0]`")),
        ("Is this task too long?", Some("it has 22 characters, but `max_length` is 20")),
    ] {
        let guard = middleware(INPUT_GUARDRAIL, params.clone()).await;
        match before(&guard, task).await.unwrap() {
            BeforeRunDecision::Proceed { input: None, .. } => assert_eq!(expected, None, "{task}"),
            BeforeRunDecision::Reject(fault) => {
                assert!(fault.to_string().contains(expected.unwrap()), "{task}: {fault}")
            }
            other => panic!("{other:?}"),
        }
    }
    let (model, mut helper) = agent([ScriptedCompleter::text("done")]);
    helper = helper.with_middleware(middleware(INPUT_GUARDRAIL, json!({ "deny": ["^go$"] })).await);
    assert!(run(&helper).await.0.is_err());
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn output_format_plugin_formats_answers() {
    for (params, answer, expected) in [
        (json!({ "trim": true }), "a", "accept"),
        (json!({ "trim": true }), " a ", "replace a"),
        (json!({ "strip_code_fence": true, "json": "compact" }), "```json\n{ \"b\": 1.0 }\n```", "replace {\"b\":1.0}"),
        (json!({ "json": "pretty" }), "[1]", "replace [\n  1\n]"),
        (json!({ "json": "pretty" }), "no", "accept"),
        (json!({ "max_length": 2, "suffix": "." }), "äöü", "replace ä…."),
    ] {
        let format = middleware(OUTPUT_FORMAT, params).await;
        assert_eq!(told(after(&format, Ok(answer), 0).await), expected, "{answer}");
        assert_eq!(told(after(&format, Err(busy()), 0).await), "accept");
    }
}

#[tokio::test]
async fn redact_plugin_redacts_the_requested_kinds() {
    const TEXT: &str = "ann@example.com, 4111 1111 1111 1111, password=hunter22";
    for (params, expected) in [
        (json!({}), "replace ann@example.com, 4111 1111 1111 1111, password=[redacted]"),
        (json!({ "what": ["emails", "cards"] }), "replace [redacted], [redacted], password=hunter22"),
        (
            json!({ "what": [], "extra": ["ann"] }),
            "replace [redacted]@example.com, 4111 1111 1111 1111, password=hunter22",
        ),
        (json!({ "what": [], "extra": ["bob"] }), "accept"),
    ] {
        let redact = middleware(REDACT, params.clone()).await;
        assert_eq!(told(after(&redact, Ok(TEXT), 0).await), expected, "{params}");
        // A model that declines to answer may say as much.
        let refused = after(&redact, Err(Fault::Denied { message: TEXT.into() }), 0).await;
        assert!(!matches!(&refused, AfterRunDecision::Reject(fault) if !matches!(fault, Fault::Denied { .. })));
        assert_eq!(told(refused), expected.replace("replace", "reject"), "{params}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limit_plugin_counts_concurrent_runs_exactly() {
    let limit = Arc::new(middleware(RATE_LIMIT, json!({ "runs": 5, "per": "1h" })).await);
    let mut asking = JoinSet::new();
    for _ in 0..20 {
        let limit = Arc::clone(&limit);
        asking.spawn(async move { before(&limit, "go").await.unwrap() });
    }
    let (mut began, mut rejected) = (0, 0);
    for decision in asking.join_all().await {
        match decision {
            BeforeRunDecision::Proceed { .. } => began += 1,
            BeforeRunDecision::Reject(Fault::RateLimited { message, after }) => {
                rejected += 1;
                assert!(message.contains("5 runs have begun within 1h"), "{message}");
                let hour = Duration::from_secs(3_600);
                assert!(after.is_some_and(|after| after <= hour && after > hour / 2), "{after:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((began, rejected), (5, 15));
}

#[tokio::test]
async fn invalid_middleware_params_are_reported_before_the_run() {
    for (component, params, says) in [
        (OUTPUT_GUARDRAIL, json!({}), "there is no rule"),
        (OUTPUT_GUARDRAIL, json!({ "json_schema": { "typ": "object" } }), "`json_schema`/typ: unsupported key"),
        (INPUT_GUARDRAIL, json!({}), "there is no rule"),
        (INPUT_GUARDRAIL, json!({ "deny": ["["] }), "`deny[0]`"),
        (OUTPUT_FORMAT, json!({}), "there is nothing to do"),
        (RATE_LIMIT, json!({ "runs": 1 }), "missing field `per`"),
        (RATE_LIMIT, json!({ "runs": 0, "per": "1m" }), "`runs` is 0"),
        (REDACT, json!({ "extra": [" "] }), "`extra` has an empty text"),
    ] {
        let fault = before(&middleware(component, params).await, "go").await.unwrap_err();
        assert!(fault.to_string().contains(says), "{fault}");
    }
}

#[tokio::test]
async fn before_only_middleware_is_not_called_after_a_run() {
    for (component, params, is_before_only) in [
        (INPUT_GUARDRAIL, json!({ "deny": ["hush"] }), true),
        (RATE_LIMIT, json!({ "runs": 5, "per": "1h" }), true),
        (OUTPUT_GUARDRAIL, json!({ "deny": ["hush"] }), false),
        (OUTPUT_FORMAT, json!({ "trim": true }), false),
        (REDACT, json!({}), false),
    ] {
        let around = middleware(component, params).await;
        assert_eq!(around.may_replace(), !is_before_only, "{component}");
        let (events, mut told) = EventSink::channel();
        let outcome = RunOutcome {
            reply: Ok(Message::text(Role::Assistant, "helper", "hush")),
            usage: Usage::default(),
            duration: Duration::ZERO,
            attempt: 0,
        };
        let decision = around.after(&cx().with_events(events), &outcome, vec![]).await.unwrap();
        assert!(!is_before_only || matches!(decision, AfterRunDecision::Accept), "{component}");
        let mut calls = 0;
        while let Some(event) = told.next_event().await {
            calls += usize::from(matches!(event, Event::PluginCall { .. }));
        }
        assert_eq!(calls, usize::from(!is_before_only), "{component}");
    }
}
