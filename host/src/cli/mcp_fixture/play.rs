//! The client's part in scenarios of the official conformance suite.

use std::{env, sync::Arc};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use url::Url;

use super::{
    FixtureClient, FixtureResponder, failed,
    login::{self, ScenarioCredentials},
    wrong,
};
use crate::{
    cli::{render, runtime},
    error::Report,
    mcp::{McpClientFeatures, McpHttpTarget, McpTarget, ProtocolRevisions, ServerConfig},
};

/// The context that the suite gives for a scenario.
#[derive(Default, Deserialize)]
struct ScenarioContext {
    #[serde(default, rename = "toolCalls")]
    calls: Vec<ScenarioCall>,
    #[serde(flatten)]
    credentials: ScenarioCredentials,
}

#[derive(Deserialize)]
struct ScenarioCall {
    name: String,
    #[serde(default)]
    arguments: Value,
}

/// Plays one scenario: lists the server's tools and calls them, unless the scenario covers only the list.
pub fn play(url: Url) -> Result<(), Report> {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let scenario = variable("MCP_CONFORMANCE_SCENARIO").ok_or_else(|| {
        wrong("MCP_CONFORMANCE_SCENARIO is not set").hint("this is called by tests/mcp/conformance.py")
    })?;
    let revision = variable("MCP_CONFORMANCE_PROTOCOL_VERSION");
    let context = variable("MCP_CONFORMANCE_CONTEXT").map(|context| serde_json::from_str(&context)).transpose();
    let context: ScenarioContext =
        context.map_err(|error| wrong("MCP_CONFORMANCE_CONTEXT cannot be read").cause(error))?.unwrap_or_default();

    let mut http = McpHttpTarget::new(url).map_err(failed)?;
    if scenario.starts_with("auth/") {
        http.oauth = Some(login::oauth(&scenario, context.credentials).map_err(failed)?);
    }
    let mut server = ServerConfig::new("suite", McpTarget::Http(http));
    server.revisions = match revision.as_deref() {
        None => ProtocolRevisions::Any,
        // Revisions are dates, so they compare as text.
        Some(revision) if revision >= "2026-07-28" => ProtocolRevisions::Stateless,
        Some(_) => ProtocolRevisions::Handshake,
    };
    runtime()?.block_on(async {
        let peer = FixtureClient::connect(server, asking()).await?;
        let calls = calls(&scenario, context.calls, &peer)?;
        // All calls run concurrently: a request within one of them must not reach another.
        let called = calls.iter().map(|call| peer.call(&call.name, &call.arguments));
        let called = futures_util::future::join_all(called).await;
        peer.client.close().await;
        for (call, called) in calls.iter().zip(called) {
            let result = called?.result;
            render::tell(&format!("{}: {}\n", render::name(&call.name), render::one_line(&result.text(), 1_000)));
            if result.is_error {
                return Err(failed(format!("`{}` failed", call.name.escape_debug())));
            }
        }
        Ok(())
    })
}

/// Returns features that accept every request and leave forms at their defaults.
fn asking() -> McpClientFeatures {
    let answers =
        Arc::new(FixtureResponder { reply: "Yes.".into(), form: Some(Map::new()), ..FixtureResponder::default() });
    let roots = watch::Sender::new(Arc::from([]));
    McpClientFeatures { sampler: Some(answers.clone()), elicitor: Some(answers), roots: Some(roots.subscribe()) }
}

/// Returns the calls of a scenario: those that it names, or one of each tool.
fn calls(scenario: &str, named: Vec<ScenarioCall>, peer: &FixtureClient) -> Result<Vec<ScenarioCall>, Report> {
    let listing = peer.client.listing();
    let schema_of = |name: &str| {
        let tool = listing.find(name).ok_or_else(|| wrong(format!("the suite's server has no tool `{name}`")))?;
        serde_json::from_str::<Value>(tool.spec.input_schema.get()).map_err(failed)
    };
    match scenario {
        // The server of this scenario answers no calls.
        "json-schema-ref-no-deref" => Ok(Vec::new()),
        "json-schema-2020-12-preservation" => {
            let schema = schema_of("json_schema_2020_12_tool")?;
            Ok(vec![ScenarioCall { name: "json_schema_echo".into(), arguments: json!({"schema": schema}) }])
        }
        _ if !named.is_empty() => Ok(named),
        _ => {
            let call = |name: &str| Ok(ScenarioCall { name: name.into(), arguments: made_up(&schema_of(name)?) });
            listing.tools.iter().map(|tool| call(&tool.name)).collect()
        }
    }
}

/// Returns arguments that match a schema: a value of the right type for each required field.
fn made_up(schema: &Value) -> Value {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let fields = required.iter().filter_map(Value::as_str).map(|name| {
        let value = match schema["properties"][name]["type"].as_str() {
            Some("number" | "integer") => json!(3),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!("something"),
        };
        (name.to_owned(), value)
    });
    Value::Object(fields.collect())
}
