//! The keys of models, and the tests that show that they do something.

use super::{
    BASE, HELD, Parts,
    Shown::{self, By, Seen},
    agent, model,
};

/// The tests of model keys that need a server of their own.
const CONFIGURED: &str = "providers/configured.rs";

/// A model that is served, with these keys.
const fn served(keys: &'static str) -> Parts {
    Parts { keys, ..BASE }
}

/// The keys of a provider, and what shows that each does something.
pub fn rows() -> Vec<(&'static str, Shown)> {
    let poor = |price| Parts { price, ..agent(", budget: {usd: 0.01}") };
    let free = poor("{input: 0, output: 0}");
    vec![
        ("provider.name", Seen(r#""model":"two""#, agent(", provider: second"), agent(", provider: third"))),
        ("provider.kind", Seen("I am offline-model", model("kind: plugin, plugin: offline-model"), BASE)),
        (
            "provider.plugin",
            Seen(
                "I am offline-model",
                model("kind: plugin, plugin: offline-model"),
                model("kind: plugin, plugin: count-text"),
            ),
        ),
        (
            "provider.params",
            Seen(
                "asked to fail",
                model("kind: plugin, plugin: probe-hooks, params: {provider: error-denied}"),
                model("kind: plugin, plugin: probe-hooks"),
            ),
        ),
        (
            "provider.clock",
            Seen(
                "providers.first grants `clock`, which",
                model("kind: plugin, plugin: offline-model, clock: true"),
                model("kind: plugin, plugin: offline-model"),
            ),
        ),
        (
            "provider.random",
            Seen(
                "providers.first grants `random`, which",
                model("kind: plugin, plugin: offline-model, random: true"),
                model("kind: plugin, plugin: offline-model"),
            ),
        ),
        (
            "provider.kv",
            Seen(
                "providers.first grants `kv`, which",
                model("kind: plugin, plugin: offline-model, kv: run"),
                model("kind: plugin, plugin: offline-model"),
            ),
        ),
        (
            "provider.http",
            Seen(
                "providers.first grants `http`, which",
                model("kind: plugin, plugin: offline-model, http: ['https://h']"),
                model("kind: plugin, plugin: offline-model"),
            ),
        ),
        (
            "provider.credentials",
            Seen(
                "providers.first grants `credentials`, which",
                Parts { top: HELD, ..model("kind: plugin, plugin: offline-model, credentials: [third]") },
                Parts { top: HELD, ..model("kind: plugin, plugin: offline-model") },
            ),
        ),
        (
            "provider.base_url",
            Seen("POST /elsewhere/chat", model("kind: openai, base_url: 'URL/elsewhere', model: one"), BASE),
        ),
        (
            "provider.api_key",
            Seen("Bearer sk-1", model("kind: openai, base_url: 'URL/v1', model: one, api_key: sk-1"), BASE),
        ),
        (
            "provider.api_key_file",
            Seen("Bearer tweet tweet", served("api_key_file: docs/bird.txt"), served("api_key: sk-1")),
        ),
        (
            "provider.api_key_command",
            Seen("Bearer sk-cmd-12345", served("api_key_command: [echo, sk-cmd-12345]"), served("api_key: sk-1")),
        ),
        (
            "provider.auth",
            Seen(
                "x-own-key: Key sk-1",
                served("api_key: sk-1, auth: {header: x-own-key, scheme: Key}"),
                served("api_key: sk-1"),
            ),
        ),
        (
            "auth.header",
            Seen("x-own-key: sk-1", served("api_key: sk-1, auth: {header: x-own-key}"), served("api_key: sk-1")),
        ),
        (
            "auth.scheme",
            Seen(
                "authorization: Key sk-1",
                served("api_key: sk-1, auth: {header: authorization, scheme: Key}"),
                served("api_key: sk-1, auth: {header: authorization}"),
            ),
        ),
        ("provider.headers", Seen("x-team: birds", served("headers: {x-team: birds}"), BASE)),
        ("provider.body", Seen(r#""top_p":0.5"#, served("body: {top_p: 0.5}"), BASE)),
        (
            "provider.proxy",
            Seen(
                "POST http://api.example/v1/chat",
                model("kind: openai, base_url: 'http://api.example/v1', model: one, proxy: 'URL'"),
                // A server on this machine is never asked for through a proxy.
                served("proxy: 'URL'"),
            ),
        ),
        ("provider.retries", By(CONFIGURED, "what_may_pass_is_tried_as_often_as_is_said")),
        ("provider.timeout", By(CONFIGURED, "provider_timeouts_are_honoured")),
        ("provider.idle_timeout", By(CONFIGURED, "provider_timeouts_are_honoured")),
        ("provider.api", Seen("POST /v1/responses", served("api: responses"), BASE)),
        ("provider.printed_calls", By(CONFIGURED, "printed_tool_calls_are_parsed_if_enabled")),
        (
            "provider.prompt_cache",
            Seen("cache_control", served("api: messages"), served("api: messages, prompt_cache: false")),
        ),
        (
            "provider.encrypted_reasoning",
            Seen(
                "reasoning.encrypted_content",
                served("api: responses, encrypted_reasoning: true"),
                served("api: responses"),
            ),
        ),
        ("provider.batch", By(CONFIGURED, "requests_are_batched_if_configured")),
        ("batch.window", By(CONFIGURED, "requests_are_batched_if_configured")),
        ("batch.poll_interval", By(CONFIGURED, "requests_are_batched_if_configured")),
        ("batch.timeout", By(CONFIGURED, "requests_are_batched_if_configured")),
        ("batch.max_size", By(CONFIGURED, "requests_are_batched_if_configured")),
        ("provider.rate_limit", By(CONFIGURED, "what_may_be_asked_in_a_minute_is_not_exceeded")),
        ("rate_limit.input_tpm", By(CONFIGURED, "what_may_be_asked_in_a_minute_is_not_exceeded")),
        ("rate_limit.output_tpm", By(CONFIGURED, "what_may_be_asked_in_a_minute_is_not_exceeded")),
        ("rate_limit.rpm", By(CONFIGURED, "what_may_be_asked_in_a_minute_is_not_exceeded")),
        ("provider.model", Seen(r#""model":"three""#, model("kind: openai, base_url: 'URL/v1', model: three"), BASE)),
        (
            "provider.context_window",
            Seen("Some(5555)", model("kind: openai, base_url: 'URL/v1', model: one, context_window: 5555"), BASE),
        ),
        (
            "provider.max_tokens",
            Seen(r#""max_tokens":77"#, model("kind: openai, base_url: 'URL/v1', model: one, max_tokens: 77"), BASE),
        ),
        (
            "provider.max_tokens_field",
            Seen(
                r#""max_completion_tokens":77"#,
                model(
                    "kind: openai, base_url: 'URL/v1', model: one, max_tokens: 77, max_tokens_field: max_completion_tokens",
                ),
                model("kind: openai, base_url: 'URL/v1', model: one, max_tokens: 77"),
            ),
        ),
        (
            "provider.temperature",
            Seen(
                r#""temperature":0.25"#,
                model("kind: openai, base_url: 'URL/v1', model: one, temperature: 0.25"),
                BASE,
            ),
        ),
        ("provider.price", Seen("requests: 1", poor("{input: 0.01, output: 0.01}"), poor("null"))),
        ("price.input", Seen("requests: 0", poor("{input: 1000000, output: 0}"), free)),
        ("price.output", Seen("requests: 0", poor("{input: 0, output: 1000000}"), free)),
        ("price.cache_read", Seen("requests: 0", poor("{input: 0, output: 0, cache_read: 1000000}"), free)),
        ("price.cache_write", Seen("requests: 0", poor("{input: 0, output: 0, cache_write: 1000000}"), free)),
    ]
}
