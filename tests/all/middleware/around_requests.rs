//! Middleware around model requests.

use std::{
    sync::{Arc, LazyLock, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use shelly_host::{
    capability::NameSet,
    chat::{ChatSnapshot, Message, Part, Role, StopReason, ToolCall, ToolResult, ToolResultContent},
    error::Fault,
    event::RunCx,
    limits,
    model::{
        Completer, Completion, CompletionRequest, ModelMiddleware, ModelRequestAttempt, ReplyVerdict, RequestVerdict,
        ScriptedCompleter, Usage,
    },
    plugin::PluginModelMiddleware,
};
use tokio::time::Instant;

use super::{agent, busy, cx, plugin, run};
use crate::{
    effects::granted,
    plugin::{CACHE, FALLBACK, REDACT_REQUESTS, RETRY, ROUTER},
};

async fn middleware(component: &str, params: Value) -> PluginModelMiddleware {
    PluginModelMiddleware::new(&plugin(component, params).await).unwrap()
}

fn request(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest::new(ChatSnapshot::from_messages(messages).unwrap(), [].into())
}

fn asks(text: &str) -> CompletionRequest {
    request(vec![Message::user(text)])
}

async fn before(
    middleware: &PluginModelMiddleware,
    cx: &RunCx,
    request: &CompletionRequest,
) -> Result<RequestVerdict, Fault> {
    middleware.before(cx, &ModelRequestAttempt::new("own", request, 0, &OnceLock::new())).await
}

async fn after(
    middleware: &PluginModelMiddleware,
    request: &CompletionRequest,
    attempt: u32,
    reply: Result<&Completion, &Fault>,
    state: Vec<u8>,
) -> Result<ReplyVerdict, Fault> {
    middleware.after(&cx(), &ModelRequestAttempt::new("own", request, attempt, &OnceLock::new()), reply, state).await
}

#[tokio::test]
async fn retry_plugin_backs_off_and_gives_up() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let limited = |after| Fault::RateLimited { message: "slow down".into(), after };
    let params = json!({ "attempts": 4, "max_delay": "5s" });
    let retry = middleware(RETRY, params).await;
    for (fault, attempt, from, to) in [
        (busy(), 0, 750, 1_000),
        (busy(), 1, 1_500, 2_000),
        (limited(None), 2, 3_000, 4_000),
        (limited(seconds(20)), 0, 20_000, 20_000),
        (Fault::Timeout { message: "late".into() }, 0, 750, 1_000),
        (busy(), 3, 0, 0),
        (limited(seconds(61)), 0, 0, 0),
        (Fault::invalid("no"), 0, 0, 0),
        (Fault::other("no"), 0, 0, 0),
    ] {
        match after(&retry, &asks("x"), attempt, Err(&fault), vec![]).await.unwrap() {
            ReplyVerdict::Retry { model: None, delay, .. } => {
                let delay = delay.as_millis();
                assert!(to > 0 && (from..=to).contains(&delay), "{fault:?} {attempt}: {delay}");
            }
            ReplyVerdict::Accept => assert_eq!(to, 0, "{fault:?} {attempt}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn retry_plugin_survives_transient_failures() {
    let limited = Fault::RateLimited { message: "slow down".into(), after: Some(Duration::from_millis(2)) };
    for (params, answers) in
        [(json!({ "base_delay": "1ms" }), true), (json!({ "base_delay": "1ms", "attempts": 2 }), false)]
    {
        let (model, mut helper) = agent([Err(busy()), Err(limited.clone()), ScriptedCompleter::text("done")]);
        helper = helper.with_model_middleware(middleware(RETRY, params).await);
        let (answer, _) = run(&helper).await;
        assert_eq!(answer.is_ok(), answers, "{answer:?}");
        assert_eq!(model.requests().len(), if answers { 3 } else { 2 });
    }
    let (model, mut helper) = agent([Err(busy())]);
    helper = helper.with_model_middleware(middleware(RETRY, json!({ "attempts": 1 })).await);
    assert!(run(&helper).await.0.is_err());
    assert_eq!(model.requests().len(), 1, "a helper that cannot work is passed over");
}

/// Has everything repeated, after a pause that is too long.
struct Never;

#[async_trait]
impl ModelMiddleware for Never {
    fn name(&self) -> &str {
        "never"
    }

    fn models(&self) -> &NameSet {
        static NONE: LazyLock<NameSet> = LazyLock::new(NameSet::default);
        &NONE
    }

    async fn before(&self, _: &RunCx, _: &ModelRequestAttempt<'_>) -> Result<RequestVerdict, Fault> {
        Ok(RequestVerdict::Proceed { model: None, request: None, state: vec![] })
    }

    async fn after(
        &self,
        _: &RunCx,
        sending: &ModelRequestAttempt<'_>,
        _: Result<&Completion, &Fault>,
        _: Vec<u8>,
    ) -> Result<ReplyVerdict, Fault> {
        assert!(sending.attempt <= limits::MIDDLEWARE_RETRIES);
        Ok(ReplyVerdict::Retry { model: None, delay: 2 * limits::MIDDLEWARE_DELAY, state: vec![] })
    }
}

#[tokio::test(start_paused = true)]
async fn request_is_repeated_with_bounded_pauses() {
    let (model, helper) = agent((0..20).map(|turn| ScriptedCompleter::text(&format!("reply {turn}"))));
    let started = Instant::now();
    let (answer, _) = run(&helper.with_model_middleware(Never)).await;
    let last = format!("reply {}", limits::MIDDLEWARE_RETRIES);
    assert_eq!(answer.unwrap().message.text_content(), last, "the last outcome stands");
    assert_eq!(model.requests().len(), limits::MIDDLEWARE_RETRIES as usize + 1);
    // Two pauses of the longest kind; further attempts follow without one.
    assert_eq!(started.elapsed(), limits::MIDDLEWARE_WAITING);
}

#[tokio::test]
async fn fallback_plugin_tries_models_in_order() {
    let denied = || Fault::Denied { message: "no key".into() };
    let says = ScriptedCompleter::text;
    for (own, second, third, answer, asked) in [
        (says("own"), says("second"), says("third"), Some("own"), [1, 0, 0]),
        (Err(busy()), says("second"), says("third"), Some("second"), [1, 1, 0]),
        (Err(denied()), Err(busy()), says("third"), Some("third"), [1, 1, 1]),
        (Err(busy()), Err(busy()), Err(denied()), None, [1, 1, 1]),
        (Err(Fault::invalid("no")), says("second"), says("third"), None, [1, 0, 0]),
    ] {
        let (model, mut helper) = agent([own]);
        let others = [second, third].map(|reply| Arc::new(ScriptedCompleter::new([reply])));
        let named = ["second", "third"].iter().zip(&others);
        helper.models = Arc::new(
            named.map(|(name, model)| ((*name).to_owned(), Arc::clone(model) as Arc<dyn Completer>)).collect(),
        );
        let params = json!({ "models": ["second", "scripted", "third"] });
        helper = helper.with_model_middleware(middleware(FALLBACK, params).await);
        let (given, _) = run(&helper).await;
        assert_eq!(given.ok().map(|given| given.message.text_content()).as_deref(), answer);
        assert_eq!([&model, &others[0], &others[1]].map(|model| model.requests().len()), asked);
    }
}

#[tokio::test]
async fn fallback_plugin_restarts_its_list_for_unknown_state() {
    let fallback = middleware(FALLBACK, json!({ "models": ["a", "b"] })).await;
    for (state, expected) in [(vec![], Some("a")), (vec![9, 9], Some("a")), (b"\x01\x01own".to_vec(), Some("b"))] {
        let decision = after(&fallback, &asks("x"), 0, Err(&busy()), state.clone()).await.unwrap();
        let ReplyVerdict::Retry { model, .. } = decision else { panic!("{decision:?}") };
        assert_eq!(model.as_deref(), expected, "{state:?}");
    }
    let decision = after(&fallback, &asks("x"), 0, Err(&busy()), b"\x01\x02own".to_vec()).await.unwrap();
    assert!(matches!(decision, ReplyVerdict::Accept), "{decision:?}");
}

#[tokio::test]
async fn router_plugin_applies_the_first_matching_rule() {
    let rules = json!({ "rules": [
        { "model": "code", "matches": "(?i)\\brust\\b" },
        { "model": "large", "min_tokens": 1_000 },
        { "model": "worker", "agent": "worker-*" },
    ] });
    let router = middleware(ROUTER, rules.clone()).await;
    let worker = RunCx::new("worker-1").with_run("run");
    for (cx, text, expected) in [
        (cx(), "Write Rust", Some("code")),
        (cx(), "trust me", None),
        (cx(), &*"word ".repeat(2_000), Some("large")),
        (worker.clone(), "trust me", Some("worker")),
        (worker, "rust", Some("code")),
    ] {
        let decision = before(&router, &cx, &asks(text)).await.unwrap();
        let RequestVerdict::Proceed { model, request: None, .. } = decision else { panic!("{decision:?}") };
        assert_eq!(model.as_deref(), expected);
    }
    let blind = granted(ROUTER, rules, |mut grant| {
        grant.powers.clear();
        grant
    });
    let blind = PluginModelMiddleware::new(&blind.await).unwrap();
    let fault = before(&blind, &cx(), &asks("rust")).await.unwrap_err();
    assert!(fault.to_string().contains("`rules[0].matches` reads messages; grant the power `see-messages`"), "{fault}");
}

#[tokio::test]
async fn cache_plugin_answers_a_repeated_request() {
    let cache = middleware(CACHE, json!({})).await;
    let answered = async |request: &CompletionRequest| match before(&cache, &cx(), request).await.unwrap() {
        RequestVerdict::Answer(completion) => Some(completion),
        RequestVerdict::Proceed { .. } => None,
        RequestVerdict::Reject(fault) => panic!("{fault}"),
    };
    let completion = |stop| Completion { stop, ..ScriptedCompleter::calls(&[("c", "t", r#"{"a":1}"#)]).unwrap() };
    for (text, reply, kept) in [
        ("calls", Ok(completion(StopReason::ToolCalls)), true),
        ("says", ScriptedCompleter::text("done"), true),
        ("cut", Ok(completion(StopReason::MaxTokens)), false),
        ("declined", Ok(completion(StopReason::Refusal)), false),
        ("failed", Err(busy()), false),
    ] {
        assert_eq!(answered(&asks(text)).await, None, "{text}");
        assert!(matches!(after(&cache, &asks(text), 0, reply.as_ref(), vec![]).await.unwrap(), ReplyVerdict::Accept));
        let unpaid = reply.ok().filter(|_| kept).map(|reply| Completion { usage: Usage::default(), ..reply });
        assert_eq!(answered(&asks(text)).await, unpaid, "{text}");
    }
    let (request, digest) = (asks("says"), OnceLock::new());
    let other = ModelRequestAttempt::new("other", &request, 0, &digest);
    assert!(matches!(cache.before(&cx(), &other).await.unwrap(), RequestVerdict::Proceed { .. }), "of another model");
}

#[tokio::test]
async fn cache_plugin_evicts_oldest_expired_and_oversized_replies() {
    let large = ScriptedCompleter::text(&"x".repeat(1 << 20));
    for (params, reply, kept) in [
        (json!({ "max_entries": 2 }), ScriptedCompleter::text("x"), [false, true, true]),
        (json!({ "max_entries": 3 }), ScriptedCompleter::text("x"), [true, true, true]),
        (json!({ "max_entries": 3, "ttl": "1h" }), ScriptedCompleter::text("x"), [true, true, true]),
        (json!({}), large, [false; 3]),
    ] {
        let cache = middleware(CACHE, params.clone()).await;
        let requests = ["one", "two", "three"].map(asks);
        for request in &requests {
            after(&cache, request, 0, reply.as_ref(), vec![]).await.unwrap();
        }
        for (request, kept) in requests.iter().zip(kept) {
            let is_answered = matches!(before(&cache, &cx(), request).await.unwrap(), RequestVerdict::Answer(_));
            assert_eq!(is_answered, kept, "{params}");
        }
    }
}

#[tokio::test]
async fn cached_reply_saves_the_model_request() {
    let (model, mut helper) = agent([ScriptedCompleter::text("done")]);
    helper = helper.with_model_middleware(middleware(CACHE, json!({})).await);
    for _ in 0..3 {
        assert_eq!(run(&helper).await.0.unwrap().message.text_content(), "done");
    }
    assert_eq!(model.requests().len(), 1);
}

/// A card's number that is nobody's.
const CARD: &str = "4111 1111 1111 1111";

#[tokio::test]
async fn redact_requests_plugin_redacts_model_requests() {
    let redact = middleware(REDACT_REQUESTS, json!({ "what": ["cards", "emails"], "extra": ["blue sky"] })).await;
    let call = ToolCall {
        id: "c".into(),
        name: "pay".into(),
        arguments: r#"{"card": 4111111111111111}"#.into(),
        meta: vec![],
    };
    let result =
        ToolResult { call_id: "c".into(), content: vec![ToolResultContent::Text(CARD.into())], is_error: false };
    let all = request(vec![
        Message::text(Role::System, "helper", "You are at ops@example.com."),
        Message::user("It is blue sky."),
        Message { parts: vec![Part::ToolCall(call)], ..Message::text(Role::Assistant, "helper", "") },
        Message { parts: vec![Part::ToolResult(result)], ..Message::text(Role::Tool, "", "") },
    ]);
    let decision = before(&redact, &cx(), &all).await.unwrap();
    let RequestVerdict::Proceed { model: None, request: Some(sent), .. } = decision else { panic!("{decision:?}") };
    let parts = sent.messages.iter().flat_map(|entry| entry.message.parts.clone());
    let texts = parts.map(|part| match part {
        Part::Text(text) => text,
        Part::ToolCall(call) => call.arguments,
        Part::ToolResult(result) => result.text(),
        other => panic!("{other:?}"),
    });
    let texts: Vec<_> = texts.collect();
    assert_eq!(texts, ["You are at [redacted].", "It is [redacted].", r#"{"card":"[redacted]"}"#, "[redacted]"]);

    let decision = before(&redact, &cx(), &asks("nothing to hide")).await.unwrap();
    assert!(matches!(decision, RequestVerdict::Proceed { request: None, .. }), "{decision:?}");
}

#[tokio::test]
async fn redact_requests_plugin_denies_requests_it_cannot_see() {
    let blind = granted(REDACT_REQUESTS, json!({}), |mut grant| {
        grant.powers.clear();
        grant
    });
    let (model, mut helper) = agent([ScriptedCompleter::text("done")]);
    helper = helper.with_model_middleware(PluginModelMiddleware::new(&blind.await).unwrap());
    let error = run(&helper).await.0.unwrap_err().in_full();
    assert!(error.contains("grant the power `see-messages`"), "{error}");
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn params_that_make_no_sense_are_told_of() {
    for (component, params, says) in [
        (ROUTER, json!({ "rules": [] }), "params: `rules` is empty"),
        (ROUTER, json!({ "rules": [{ "model": "a", "matches": "(" }] }), "`rules[0].matches`"),
        (CACHE, json!({ "ttl": "soon" }), "invalid duration `soon`"),
        (REDACT_REQUESTS, json!({ "what": ["names"] }), "unknown variant `names`"),
        (REDACT_REQUESTS, json!({ "extra": [""] }), "`extra` has an empty text"),
    ] {
        let fault = before(&middleware(component, params).await, &cx(), &asks("x")).await.unwrap_err();
        assert!(fault.to_string().contains(says), "{fault}");
    }
    for (component, params, says) in [
        (RETRY, json!({ "attempts": 0 }), "`attempts` is 0"),
        (RETRY, json!({ "base_delay": "soon" }), "`base_delay`: invalid duration `soon`"),
        (FALLBACK, json!({}), "missing field `models`"),
        (FALLBACK, json!({ "models": [] }), "`models` has 0 names"),
    ] {
        let middleware = middleware(component, params).await;
        let fault = after(&middleware, &asks("x"), 0, Err(&busy()), vec![]).await.unwrap_err();
        assert!(fault.to_string().contains(says), "{fault}");
    }
}
