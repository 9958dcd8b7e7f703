//! An MCP client that executes a script from standard input, line by line.

use std::{env, path::PathBuf, sync::Arc};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{sync::watch, time::timeout};
use url::Url;

use super::{FixtureCallResult, FixtureClient, FixtureResponder, failed, wrong};
use crate::{
    cli::render::{json_line, print},
    error::{ErrorKind, Report},
    limits,
    mcp::{
        McpClientFeatures, McpHttpTarget, McpRoot, McpStdioTarget, McpTarget, McpToolListing, ProtocolRevisions,
        ServerConfig,
    },
};

/// One line of a script. The first must be `connect`.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ScriptStep {
    /// Connects to a server. Prints `{"tools": [NAME], "refused": [NAME]}`.
    Connect(ConnectStep),
    /// Calls a tool. Prints `{"is_error", "content", "text", "progress", "asked"}`.
    Call {
        tool: String,
        #[serde(default)]
        arguments: Map<String, Value>,
    },
    /// Replaces the roots that the server is told of. Prints `{}`.
    Roots(Vec<String>),
    /// Waits until the server's tools have changed. Prints `{"tools", "refused"}`.
    Changed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConnectStep {
    /// The program and its arguments.
    #[serde(default)]
    program: Vec<String>,
    /// The URL, instead of a program.
    url: Option<Url>,
    /// The working directory of the program; `None`: the current one.
    folder: Option<PathBuf>,
    /// The roots, as URLs; `None`: the client does not offer roots.
    roots: Option<Vec<String>>,
    /// The reply to sampling requests; `None`: the client does not offer sampling.
    reply: Option<String>,
    /// The values for forms; null declines them. If the field is missing, the client does not offer elicitation.
    #[serde(default, deserialize_with = "given")]
    form: Option<Option<Map<String, Value>>>,
    /// The protocol revisions to speak: `any`, `handshake` or `stateless`.
    #[serde(default)]
    revisions: String,
}

/// Distinguishes null from a missing field.
fn given<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Option<Map<String, Value>>>, D::Error> {
    Deserialize::deserialize(field).map(Some)
}

/// An open connection, and the responder for its requests.
struct ScriptedConnection {
    peer: FixtureClient,
    answers: Arc<FixtureResponder>,
    roots: Option<watch::Sender<Arc<[McpRoot]>>>,
    changes: watch::Receiver<Arc<McpToolListing>>,
}

pub fn drive() -> Result<(), Report> {
    // A runtime with its own thread keeps the connection running while the next line is awaited.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(failed)?;
    let mut driven = None;
    for line in std::io::stdin().lines() {
        let line = line.map_err(failed)?;
        let step = serde_json::from_str(&line).map_err(|error| wrong("a line is no step").cause(error))?;
        print(&json_line(&runtime.block_on(take(step, &mut driven))?))?;
    }
    if let Some(driven) = driven {
        runtime.block_on(driven.peer.client.close());
    }
    Ok(())
}

async fn take(step: ScriptStep, driven: &mut Option<ScriptedConnection>) -> Result<Value, Report> {
    match (step, driven.as_mut()) {
        (ScriptStep::Connect(connect), _) => match open(connect).await {
            Ok(opened) => Ok(shown(&driven.insert(opened).peer.client.listing())),
            // A script may expect this failure, so it goes on.
            Err(report) if report.kind == ErrorKind::Run => Ok(json!({"error": report.to_string()})),
            Err(report) => Err(report),
        },
        (_, None) => Err(wrong("a script begins with a connection")),
        (ScriptStep::Call { tool, arguments }, Some(driven)) => {
            let FixtureCallResult { result, progress } = driven.peer.call(&tool, &json!(arguments)).await?;
            let (text, asked) = (result.text(), driven.answers.asked());
            Ok(json!({
                "is_error": result.is_error, "content": result.content, "text": text, "progress": progress, "asked": asked,
            }))
        }
        (ScriptStep::Roots(uris), Some(driven)) => {
            let told = driven.roots.as_ref().ok_or_else(|| wrong("it was connected without roots"))?;
            told.send_replace(roots(uris));
            Ok(json!({}))
        }
        (ScriptStep::Changed, Some(driven)) => {
            let changed = timeout(limits::MCP_CONNECT_TIME, driven.changes.changed()).await;
            changed.map_err(|_| failed("the server's tools do not change"))?.map_err(failed)?;
            Ok(shown(&driven.changes.borrow_and_update()))
        }
    }
}

async fn open(connect: ConnectStep) -> Result<ScriptedConnection, Report> {
    let ConnectStep { program, url, folder, roots: folders, reply, form, revisions } = connect;
    let target = match (program.split_first(), url) {
        (Some((program, arguments)), None) => {
            let folder = folder.map_or_else(env::current_dir, Ok).map_err(failed)?;
            let passed = ["PATH", "HOME"].into_iter().filter_map(|name| Some((name.to_owned(), env::var(name).ok()?)));
            McpTarget::Program(McpStdioTarget::new(program, arguments.to_vec(), passed, folder))
        }
        (None, Some(url)) => McpTarget::Http(McpHttpTarget::new(url).map_err(failed)?),
        _ => return Err(wrong("a server is a program or has an address")),
    };
    let mut config = ServerConfig::new("peer", target);
    config.revisions = match revisions.as_str() {
        "" | "any" => ProtocolRevisions::Any,
        "handshake" => ProtocolRevisions::Handshake,
        "stateless" => ProtocolRevisions::Stateless,
        _ => return Err(wrong("revisions are `any`, `handshake` or `stateless`")),
    };
    let (can_sample, can_elicit) = (reply.is_some(), form.is_some());
    let answers = Arc::new(FixtureResponder {
        reply: reply.unwrap_or_default(),
        form: form.flatten(),
        ..FixtureResponder::default()
    });
    let told = folders.map(|uris| watch::Sender::new(roots(uris)));
    let mut asking =
        McpClientFeatures { roots: told.as_ref().map(watch::Sender::subscribe), ..McpClientFeatures::default() };
    if can_sample {
        asking.sampler = Some(answers.clone());
    }
    if can_elicit {
        asking.elicitor = Some(answers.clone());
    }
    let peer = FixtureClient::connect(config, asking).await?;
    let changes = peer.client.changes();
    Ok(ScriptedConnection { peer, answers, roots: told, changes })
}

fn roots(uris: Vec<String>) -> Arc<[McpRoot]> {
    uris.into_iter().map(|uri| McpRoot { uri, name: None }).collect()
}

fn shown(listing: &McpToolListing) -> Value {
    let tools: Vec<_> = listing.tools.iter().map(|tool| &tool.name).collect();
    let refused: Vec<_> =
        listing.refused.iter().map(|refused| json!({"name": refused.name, "why": refused.why})).collect();
    json!({"tools": tools, "refused": refused})
}
