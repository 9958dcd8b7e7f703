//! A guest for tests: four kinds in one component, each doing what the params say: `{"effect": "note"}`,
//! `{"middleware": "retry"}`, `{"provider": "echo"}`. Without a word for its kind it does nothing.

use serde::Deserialize;
use serde_json::Value;
use shelly_plugin::{
    Call, Content, Error, NoArgs, Reply, Tool, config,
    types::{self, Retry},
};

mod effect;
mod middleware;
mod provider;

shelly_plugin::export!(
    tools: [Ping],
    effect: effect::Probe,
    run_middleware: middleware::Probe,
    provider: provider::Probe,
);

/// What to do. Unknown words are errors: a test that misspells one must not pass.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Params {
    effect: String,
    middleware: String,
    provider: String,
    /// For whatever writes or says something.
    text: Option<String>,
    /// Tools to hide.
    tools: Vec<String>,
    /// The tool that the provider calls.
    tool: String,
    /// The arguments of that call.
    arguments: Value,
    /// How often: `retry`.
    times: u32,
    /// How much: `big-state`, `big-note`, `big`.
    bytes: usize,
    /// Turns to sleep: `count`.
    sleep: u32,
}

impl Params {
    fn text(&self, default: &str) -> String {
        self.text.clone().unwrap_or_else(|| default.to_owned())
    }
}

fn params() -> Result<Params, Error> {
    config()
}

fn unknown(kind: &str, word: &str) -> Error {
    Error::Invalid(format!("probe-hooks: no {kind} `{word}`"))
}

fn error(case: &str) -> Option<Error> {
    let text = || "asked to fail".to_owned();
    let retry = || Retry { message: text(), after_ms: Some(10) };
    Some(match case {
        "invalid" => Error::Invalid(text()),
        "denied" => Error::Denied(text()),
        "not-found" => Error::NotFound(text()),
        "too-large" => Error::TooLarge(text()),
        "exhausted" => Error::Exhausted(text()),
        "rate-limited" => Error::RateLimited(retry()),
        "unavailable" => Error::Unavailable(retry()),
        "timeout" => Error::Timeout(text()),
        "other" => Error::Other(text()),
        _ => return None,
    })
}

fn spin() -> ! {
    loop {
        std::hint::black_box(0);
    }
}

/// A tool beside the other kinds.
struct Ping;

impl Tool for Ping {
    const NAME: &'static str = "ping";
    const DESCRIPTION: &'static str = "Says pong.";
    const HINTS: types::ToolHints = types::ToolHints::PURE;
    type Args = NoArgs;

    fn call(_args: NoArgs, _call: &Call) -> Result<Reply, Error> {
        Ok(Content::from("pong").into())
    }
}
