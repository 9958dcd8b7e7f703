//! Prompts: their list, their content, and servers that send anything in their place.

use std::{collections::BTreeMap, time::Duration};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        ContentBlock, EmbeddedResource, GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult,
        PaginatedRequestParams, Prompt, PromptArgument, PromptMessage, ResourceContents, Role as WireRole,
        ServerCapabilities, ServerConfig as Served,
    },
    service::RequestContext,
};
use serde_json::json;

use super::*;
use crate::{ServerPromptContent, ServerPromptPart};
use shelly_core::{chat::Role, limits};

fn prompt(name: &str) -> Value {
    json!({"name": name, "description": format!("The prompt {name}.")})
}

fn message(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
}

/// Returns servers that declare prompts and have no tools; `answer` answers requests for prompts.
fn offering(answer: impl Fn(&Value) -> Value + Clone + Send + Sync + 'static) -> Servers {
    Servers::new(move |mut peer| {
        let answer = answer.clone();
        async move {
            peer.shake_hands_with(json!({"prompts": {}, "tools": {}})).await;
            while let Some(request) = peer.next().await {
                match request["method"].as_str() {
                    Some("tools/list") => peer.answer(&request, json!({"tools": []})).await,
                    Some("prompts/list" | "prompts/get") => {
                        let result = answer(&request);
                        match result.get("refused") {
                            Some(why) => peer.refuse(&request, -32_602, why.as_str().unwrap()).await,
                            None => peer.answer(&request, result).await,
                        }
                    }
                    _ => {}
                }
            }
        }
    })
}

fn words(arguments: &[(&str, &str)]) -> BTreeMap<String, String> {
    arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn server_without_prompts_is_not_asked_for_any() {
    let (told, mut hears) = tokio::sync::mpsc::channel(1);
    let servers = Servers::new(move |mut peer| {
        let told = told.clone();
        async move {
            peer.begin(&[tool("t")]).await;
            told.send(peer.next().await).await.unwrap();
        }
    });
    let client = connect(&servers).await.unwrap();
    let listing = client.prompts().await.unwrap();
    assert!(listing.prompts.is_empty() && listing.refused.is_empty());
    let error = client.prompt("x", words(&[])).await.unwrap_err().to_string();
    assert_eq!(error, "cannot use the prompt `x` of the MCP server `test`: the server offers no prompts");
    client.close().await;
    assert_eq!(hears.recv().await, Some(None), "it is asked for nothing more");
}

#[tokio::test(start_paused = true)]
async fn server_may_have_prompts_alone() {
    for (capabilities, connects) in [(json!({"prompts": {}}), true), (json!({"prompts": {}, "tools": {}}), false)] {
        let servers = Servers::new(move |mut peer| {
            let capabilities = capabilities.clone();
            async move {
                peer.shake_hands_with(capabilities).await;
                let list = peer.next_of("tools/list").await;
                peer.refuse(&list, -32_601, "no such method").await;
                let list = peer.next_of("prompts/list").await;
                peer.answer(&list, json!({"prompts": [prompt("review")]})).await;
                peer.hang().await;
            }
        });
        match connect(&servers).await {
            Ok(client) => {
                assert!(connects && client.listing().tools.is_empty());
                assert_eq!(client.prompts().await.unwrap().prompts.len(), 1);
            }
            Err(error) => assert!(!connects, "{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn prompts_are_listed_over_all_pages_within_bounds() {
    let servers = offering(|request| {
        let at = request["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        match at + 1 == limits::MCP_PAGES {
            true => json!({"prompts": [prompt("last")]}),
            false => json!({"prompts": [prompt(&format!("p{at}"))], "nextCursor": format!("{}", at + 1)}),
        }
    });
    let client = connect(&servers).await.unwrap();
    let listing = client.prompts().await.unwrap();
    assert_eq!(listing.prompts.len(), limits::MCP_PAGES);
    assert_eq!(listing.find("p1").unwrap().description, "The prompt p1.");
    servers.check().await;

    let many = |count: usize| json!((0..count).map(|at| prompt(&format!("p{at}"))).collect::<Vec<_>>());
    let long = |count: usize| {
        let description = "x".repeat(limits::MCP_PROMPT_DESCRIPTION_BYTES);
        let long = |at: usize| json!({"name": format!("p{at}"), "description": description});
        json!((0..count).map(long).collect::<Vec<_>>())
    };
    for (page, why) in [
        (json!({"prompts": many(limits::MCP_PROMPTS + 1)}), "more than 512 prompts"),
        (json!({"prompts": long(65)}), "the descriptions of the prompts have more than 524288 bytes"),
        (json!({"prompts": [], "nextCursor": "same"}), "the cursor of the next page repeats"),
        (json!({"prompts": "none"}), "the list of prompts is invalid"),
        (json!({"tools": []}), "the answer is not a list of prompts"),
        (json!({"refused": "not now"}), "not now"),
    ] {
        let client = connect(&offering(move |_| page.clone())).await.unwrap();
        let error = client.prompts().await.unwrap_err();
        assert!(matches!(error, McpError::Prompts { .. }) && !error.is_transient(), "{error}");
        assert_eq!(error.to_string(), format!("cannot list the prompts of the MCP server `test`: {why}"));
        assert!(client.listing().refused.is_empty(), "its tools are not affected");
    }
}

#[tokio::test(start_paused = true)]
async fn unusable_prompts_are_listed_apart_with_reasons() {
    let page = json!({"prompts": [
        prompt("fine"), prompt("code review"), prompt("\u{1b}[2Jclear"), json!({"name": "deep", "arguments": 7}),
    ]});
    let client = connect(&offering(move |_| page.clone())).await.unwrap();
    let listing = client.prompts().await.unwrap();
    let names: Vec<_> = listing.prompts.iter().map(|prompt| &*prompt.name).collect();
    assert_eq!(names, ["fine"]);
    let refused: Vec<_> = listing.refused.iter().map(|refused| &*refused.name).collect();
    assert_eq!(refused, ["code review", "\u{1b}[2Jclear", "deep"]);
}

#[tokio::test(start_paused = true)]
async fn prompt_is_fetched_with_its_arguments() {
    let servers = offering(|request| message(&request["params"].to_string()));
    let client = connect(&servers).await.unwrap();
    for (arguments, sent) in
        [(words(&[]), json!({})), (words(&[("path", "a b.rs"), ("depth", "")]), json!({"path": "a b.rs", "depth": ""}))]
    {
        let parts = client.prompt("review", arguments).await.unwrap();
        let [ServerPromptPart { role: Role::User, content: ServerPromptContent::Text(text) }] = &parts[..] else {
            panic!("{parts:?}")
        };
        let params: Value = serde_json::from_str(text).unwrap();
        assert_eq!((&params["name"], &params["arguments"]), (&json!("review"), &sent));
    }
    servers.check().await;
}

#[tokio::test(start_paused = true)]
async fn failed_prompt_is_reported_with_server_and_reason() {
    for (result, why) in [
        (json!({"refused": "no such \u{1b}[2Jprompt"}), "no such \u{1b}[2Jprompt"),
        (message(&"x".repeat(limits::MCP_PROMPT_BYTES + 1)), "its text has 262145 bytes, the maximum is 262144"),
        (message("a\u{200b}b"), "its text has the invisible character U+200B"),
        (json!({"content": []}), "the answer is not a prompt"),
    ] {
        let client = connect(&offering(move |_| result.clone())).await.unwrap();
        let error = client.prompt("review", words(&[])).await.unwrap_err();
        assert_eq!(error.to_string(), format!("cannot use the prompt `review` of the MCP server `test`: {why}"));
        assert_eq!(error.server(), "test");
    }
}

#[tokio::test(start_paused = true)]
async fn silent_or_lost_server_ends_the_wait_for_a_prompt() {
    for (method, ends, why) in [
        ("prompts/list", false, "no list within 30s"),
        ("prompts/get", false, "no answer within 7 seconds"),
        ("prompts/list", true, "the server closed the connection"),
        ("prompts/get", true, "the server closed the connection"),
    ] {
        let servers = Servers::new(move |mut peer| async move {
            peer.shake_hands_with(json!({"prompts": {}})).await;
            let list = peer.next_of("tools/list").await;
            peer.answer(&list, json!({"tools": []})).await;
            peer.next_of(method).await;
            if !ends {
                peer.hang().await;
            }
        });
        let config = ServerConfig { call_time: Duration::from_secs(7), ..config(&servers) };
        let client = McpClient::connect(config, McpClientFeatures::default()).await.unwrap();
        let error = match method {
            "prompts/list" => client.prompts().await.unwrap_err(),
            _ => client.prompt("review", words(&[])).await.unwrap_err(),
        };
        assert!(error.to_string().ends_with(why), "{method}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_prompt_request_is_cancelled() {
    let (told, mut hears) = tokio::sync::mpsc::channel(1);
    let servers = Servers::new(move |mut peer| {
        let told = told.clone();
        async move {
            peer.shake_hands_with(json!({"prompts": {}})).await;
            let list = peer.next_of("tools/list").await;
            peer.answer(&list, json!({"tools": []})).await;
            let get = peer.next_of("prompts/get").await;
            let cancelled = peer.next_of("notifications/cancelled").await;
            assert_eq!(cancelled["params"]["requestId"], get["id"]);
            told.send(()).await.unwrap();
            peer.hang().await;
        }
    });
    let client = connect(&servers).await.unwrap();
    let getting = client.prompt("review", words(&[]));
    assert!(tokio::time::timeout(Duration::from_secs(1), getting).await.is_err());
    hears.recv().await.unwrap();
    servers.check().await;
}

/// A server built with `rmcp` that has one prompt.
#[derive(Clone)]
struct PromptLibrary;

impl ServerHandler for PromptLibrary {
    fn get_info(&self) -> Served {
        Served::new(ServerCapabilities::builder().enable_prompts().enable_tools().build())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let path = PromptArgument::new("path").with_required(true);
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new("review", Some("Reviews."), Some(vec![path]))]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let path = request.arguments.as_ref().and_then(|arguments| arguments.get("path")?.as_str());
        let path = path.ok_or_else(|| ErrorData::invalid_params("there is no path", None))?;
        let file = ResourceContents::text("fn main() {}", path);
        Ok(GetPromptResult::new(vec![
            PromptMessage::new_text(WireRole::User, "Review it."),
            PromptMessage::new(WireRole::Assistant, ContentBlock::Resource(EmbeddedResource::new(file))),
        ])
        .into())
    }
}

#[tokio::test]
async fn client_gets_prompts_of_an_rmcp_server_in_each_revision() {
    for revisions in [ProtocolRevisions::Any, ProtocolRevisions::Handshake, ProtocolRevisions::Stateless] {
        let config = library(PromptLibrary, revisions);
        let client = McpClient::connect(config, McpClientFeatures::default()).await.unwrap();
        let listing = client.prompts().await.unwrap();
        assert!(listing.find("review").unwrap().arguments[0].is_required, "{revisions:?}");
        let parts = client.prompt("review", words(&[("path", "a:main.rs")])).await.unwrap();
        let resource = ServerPromptContent::Resource { uri: "a:main.rs".into(), text: "fn main() {}".into() };
        assert_eq!(parts[1], ServerPromptPart { role: Role::Assistant, content: resource }, "{revisions:?}");
        let error = client.prompt("review", words(&[])).await.unwrap_err().to_string();
        assert!(error.ends_with("there is no path"), "{revisions:?}: {error}");
        client.close().await;
    }
}
