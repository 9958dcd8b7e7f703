//! Requests of a server to its client, and their answers.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::{
    ElicitationRequest, ElicitationResult, Elicitor, McpRoot, Sampler, SamplingRequest, SamplingResult,
    ServerRequestOrigin,
};
use shelly_core::{chat::StopReason, error::Fault, limits};

/// A sampler that replies with the request, after a while.
#[derive(Default)]
struct Model(AtomicUsize);

#[async_trait]
impl Sampler for Model {
    async fn sample(&self, asked: &ServerRequestOrigin, request: SamplingRequest) -> Result<SamplingResult, Fault> {
        self.0.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!((&*asked.server, &*asked.run.agent, &*asked.call), ("test", "ada", "c1"));
        let text = request.messages.iter().map(|message| message.text_content()).collect();
        Ok(SamplingResult { text, model: request.models.join(","), stop: StopReason::MaxTokens })
    }
}

struct Person;

#[async_trait]
impl Elicitor for Person {
    async fn elicit(&self, _: &ServerRequestOrigin, question: ElicitationRequest) -> Result<ElicitationResult, Fault> {
        match &*question.message {
            "name?" => Ok(ElicitationResult::Accept(BTreeMap::from([("name".into(), json!("Ada"))]))),
            "secret?" => Ok(ElicitationResult::Decline),
            "hang" => std::future::pending().await,
            _ => Err(Fault::other("nobody is there")),
        }
    }
}

fn asking() -> McpClientFeatures {
    McpClientFeatures { sampler: Some(Arc::new(Model::default())), elicitor: Some(Arc::new(Person)), roots: None }
}

fn sampling(id: usize) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": "What is two and two?"}});
    let params = json!({"messages": [message], "maxTokens": 10, "modelPreferences": {"hints": [{"name": "small"}]}});
    json!({"jsonrpc": "2.0", "id": format!("s{id}"), "method": "sampling/createMessage", "params": params})
}

fn form(id: usize, message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
    json!({"jsonrpc": "2.0", "id": format!("f{id}"), "method": "elicitation/create", "params": params})
}

#[tokio::test(start_paused = true)]
async fn a_server_may_ask_a_model_and_a_person_during_a_call() {
    let servers = Servers::new(|mut peer| async move {
        peer.begin(&[tool("t")]).await;
        // No call is in progress: no run could be named as the origin.
        peer.say(form(0, "name?")).await;
        let answer = peer.next().await.unwrap();
        assert_eq!(answer["error"]["message"], "the request belongs to no known call");
        let call = peer.next_of("tools/call").await;
        peer.say(sampling(1)).await;
        let answer = peer.next().await.unwrap();
        let content = json!({"type": "text", "text": "What is two and two?"});
        let expected = json!({"role": "assistant", "content": content, "model": "small", "stopReason": "maxTokens"});
        assert_eq!(answer["result"], expected);
        for (message, expected) in [
            ("name?", json!({"action": "accept", "content": {"name": "Ada"}})),
            ("secret?", json!({"action": "decline"})),
        ] {
            peer.say(form(2, message)).await;
            assert_eq!(peer.next().await.unwrap()["result"], expected);
        }
        peer.say(form(3, "else?")).await;
        assert_eq!(peer.next().await.unwrap()["error"]["message"], "nobody is there");
        let url = json!({"mode": "url", "message": "look", "url": "https://example.com", "elicitationId": "1"});
        peer.say(json!({"jsonrpc": "2.0", "id": "u", "method": "elicitation/create", "params": url})).await;
        assert_eq!(
            peer.next().await.unwrap()["error"]["message"],
            "only elicitation by forms is supported, not by pages"
        );
        peer.say(form(4, &"x".repeat(limits::MCP_ASK_BYTES))).await;
        let why = peer.next().await.unwrap()["error"]["message"].to_string();
        assert!(why.contains("the maximum is 4194304"), "{why}");
        peer.answer(&call, text("done")).await;
        peer.hang().await;
    });
    let client = McpClient::connect(config(&servers), asking()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The model takes longer than a call may; its time does not count as the server's.
    assert_eq!(said(&toolbox(&client), "test__t", &json!({})).await, (false, "done".into()));
    servers.check().await;
}

#[tokio::test(start_paused = true)]
async fn questions_are_bounded_by_the_call_and_by_the_minute() {
    let servers = Servers::new(|mut peer| async move {
        peer.begin(&[tool("t")]).await;
        let mut answered = 0;
        loop {
            let call = peer.next_of("tools/call").await;
            let mut refused = String::new();
            for id in 0..=limits::MCP_ASKS_PER_CALL as usize {
                peer.say(form(id, "name?")).await;
                let answer = peer.next().await.unwrap();
                match answer.get("result") {
                    Some(_) => answered += 1,
                    None => refused = answer["error"]["message"].to_string(),
                }
            }
            peer.answer(&call, text(&format!("{answered} {refused}"))).await;
        }
    });
    let client = McpClient::connect(config(&servers), asking()).await.unwrap();
    let tools = toolbox(&client);
    let (each, most) = (limits::MCP_ASKS_PER_CALL, limits::MCP_ASKS_PER_MINUTE);
    for round in 1..=most / each {
        let (_, text) = said(&tools, "test__t", &json!({})).await;
        assert_eq!(text, format!("{} \"one call can send at most {each} requests\"", round * each));
    }
    let (_, text) = said(&tools, "test__t", &json!({})).await;
    assert!(text.starts_with(&format!("{most} ")), "{text}");
    let (_, text) = said(&tools, "test__t", &json!({})).await;
    assert_eq!(text, format!("{most} \"one call can send at most {each} requests\""));
    tokio::time::advance(limits::MCP_ASK_WINDOW).await;
    let (_, text) = said(&tools, "test__t", &json!({})).await;
    assert!(text.starts_with(&format!("{} ", most + each)), "{text}");
    servers.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_with_its_call() {
    let (told, mut hears) = tokio::sync::mpsc::channel(1);
    let servers = Servers::new(move |mut peer| {
        let told = told.clone();
        async move {
            peer.begin(&[tool("t")]).await;
            peer.next_of("tools/call").await;
            peer.say(form(1, "hang")).await;
            let (mut cancelled, mut refused) = (false, false);
            while !cancelled || !refused {
                let message = peer.next().await.unwrap();
                cancelled |= message["method"] == "notifications/cancelled";
                refused |= message["error"]["message"] == "the call has ended";
            }
            told.send(()).await.unwrap();
        }
    });
    let client = McpClient::connect(config(&servers), asking()).await.unwrap();
    let tools = toolbox(&client);
    let waits = tokio::time::timeout(Duration::from_secs(3_600), said(&tools, "test__t", &json!({}))).await;
    assert!(waits.is_err(), "a person may take an hour: {waits:?}");
    hears.recv().await.unwrap();
    servers.check().await;
}

#[tokio::test(start_paused = true)]
async fn folders_are_told_and_so_are_their_changes() {
    let root = |name: &str| McpRoot { uri: format!("file:///{name}"), name: Some(name.into()) };
    let (change, roots) = watch::channel::<Arc<[McpRoot]>>([root("a")].into());
    let (told, mut hears) = tokio::sync::mpsc::channel(2);
    let servers = Servers::new(move |mut peer| {
        let told = told.clone();
        async move {
            peer.begin(&[tool("t")]).await;
            for id in 0.. {
                peer.say(json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"})).await;
                told.send(peer.next().await.unwrap()["result"]["roots"].clone()).await.unwrap();
                peer.next_of("notifications/roots/list_changed").await;
            }
        }
    });
    let asking = McpClientFeatures { roots: Some(roots), ..McpClientFeatures::default() };
    let _client = McpClient::connect(config(&servers), asking).await.unwrap();
    assert_eq!(hears.recv().await.unwrap(), json!([{"uri": "file:///a", "name": "a"}]));
    change.send((0..=limits::MCP_ROOTS).map(|at| root(&at.to_string())).collect()).unwrap();
    assert_eq!(hears.recv().await.unwrap().as_array().unwrap().len(), limits::MCP_ROOTS);
    servers.check().await;
}

/// A server of the newest revision asks in its answer, and the client calls it again with the reply.
#[tokio::test(start_paused = true)]
async fn stateless_server_requests_input_in_its_answer() {
    let servers = Servers::new(|mut peer| async move {
        while let Some(request) = peer.next().await {
            let meta = &request["params"]["_meta"];
            assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{request}");
            match request["method"].as_str().unwrap() {
                "server/discover" => {
                    let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                        "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
                        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "peer", "version": "1"}}});
                    peer.answer(&request, result).await;
                }
                "tools/list" => {
                    let list = json!({"resultType": "complete", "tools": [tool("t"), tool("ever")], "ttlMs": 0, "cacheScope": "private"});
                    peer.answer(&request, list).await;
                }
                "tools/call"
                    if request["params"]["inputResponses"]["q"]["content"]["name"] == "Ada"
                        && request["params"]["name"] == "t" =>
                {
                    assert_eq!(request["params"]["requestState"], "s");
                    peer.answer(&request, text("hello Ada")).await;
                }
                _ => {
                    let question = form(0, "name?");
                    let asks = json!({"q": {"method": question["method"], "params": question["params"]}});
                    let result = json!({"resultType": "input_required", "inputRequests": asks, "requestState": "s"});
                    peer.answer(&request, result).await;
                }
            }
        }
    });
    let client = McpClient::connect(config(&servers), asking()).await.unwrap();
    let tools = toolbox(&client);
    assert_eq!(said(&tools, "test__t", &json!({})).await, (false, "hello Ada".into()));
    let (is_error, why) = said(&tools, "test__ever", &json!({})).await;
    assert!(is_error && why == "one call can send at most 8 requests", "{why}");
    servers.check().await;
}
