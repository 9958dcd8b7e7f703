//! The list of the models that a server offers.

use std::time::Duration;

use serde_json::Value;

use super::{AdapterConfig, Anthropic, Vendor, WireApi, WireProtocol, anthropic};
use shelly_core::{error::Fault, limits};
use shelly_net::{HttpClient, HttpRequest, Retries, endpoint, origin};

/// A model that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// The model's name in requests.
    pub id: String,
    /// The context window in tokens, if the list contains it.
    pub context_window: Option<u64>,
}

/// The fields in which lists report the context window: vLLM, OpenRouter, Groq, Anthropic, Google.
const WINDOW_FIELDS: [&str; 5] =
    ["max_model_len", "context_length", "context_window", "max_input_tokens", "inputTokenLimit"];

/// The number of entries on one page, where the API has pages: more than any vendor has models.
const PAGE: &str = "1000";

impl Vendor {
    /// Lists the models that the server of `config` offers, except those that cannot hold conversations according to Google.
    /// Sends one request and waits for at most `time`.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] if no server answers there, otherwise the fault that the server's response stands for.
    pub async fn list_models(
        self,
        client: &HttpClient,
        config: &AdapterConfig,
        time: Duration,
    ) -> Result<Vec<ListedModel>, Fault> {
        let mut config = config.clone();
        let url = match self.preset().api {
            WireApi::Messages => {
                config.add_headers(Anthropic::default().headers());
                let mut url = anthropic::below_version(&config.base_url, &["models"])?;
                url.query_pairs_mut().append_pair("limit", PAGE);
                url
            }
            WireApi::GenerateContent => {
                let mut url = endpoint(&config.base_url, &["models"])?;
                url.query_pairs_mut().append_pair("pageSize", PAGE);
                url
            }
            WireApi::Chat | WireApi::Responses => endpoint(&config.base_url, &["models"])?,
        };
        let origin = origin(&url);
        let (auth, headers) = (config.auth, config.headers);
        let request =
            HttpRequest { auth, headers, retries: Retries::NONE, total: time, idle: time, ..HttpRequest::new(url) };
        let body = client.get(&request).await?.read(limits::STREAM_EVENT_BYTES).await?;
        let list: Value = serde_json::from_slice(&body).unwrap_or_default();
        let entries = list.get("data").or_else(|| list.get("models"));
        let no_list = || Fault::other(format!("{origin} answered without a list of models"));
        match entries.ok_or_else(no_list)? {
            Value::Array(entries) => Ok(entries.iter().filter_map(listed).collect()),
            Value::Null => Ok(Vec::new()),
            _ => Err(no_list()),
        }
    }
}

fn listed(entry: &Value) -> Option<ListedModel> {
    // Google lists the methods of each model, and puts a collection in front of its name.
    let methods = entry.get("supportedGenerationMethods").and_then(Value::as_array);
    if methods.is_some_and(|methods| !methods.iter().any(|method| method == "generateContent")) {
        return None;
    }
    let name = || entry.get("name")?.as_str().map(|name| name.strip_prefix("models/").unwrap_or(name));
    let id = entry.get("id").and_then(Value::as_str).or_else(name)?.to_owned();
    let window = WINDOW_FIELDS.iter().find_map(|field| entry.get(*field)?.as_u64());
    Some(ListedModel { id, context_window: window.filter(|tokens| *tokens > 0) })
}

/// Returns the first of the preferred models that the server offers, with or without a date after its name; else the first
/// model that it offers.
pub(super) fn preferred<'a>(offered: &'a [ListedModel], preferred: &[&str]) -> Option<&'a ListedModel> {
    let is_dated = |id: &str, name: &str| {
        let date = id.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        date.is_some_and(|date| date.starts_with("20") && date.chars().all(|c| c.is_ascii_digit() || c == '-'))
    };
    let of = |name: &&str| {
        let exact = offered.iter().find(|model| model.id == *name);
        exact.or_else(|| offered.iter().find(|model| is_dated(&model.id, name)))
    };
    preferred.iter().find_map(of).or(offered.first())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AdapterConfig;
    use shelly_net::Secret;
    use shelly_test_support::{TestServer, answer};

    async fn list(vendor: Vendor, path: &str, body: &str) -> (Result<Vec<ListedModel>, Fault>, String) {
        let server = TestServer::start(vec![answer("200 OK", "", body)]).await;
        let auth = (!vendor.is_local()).then(|| vendor.auth(Secret::new("sk-secret")));
        let config = AdapterConfig { auth, ..AdapterConfig::new(format!("{}{path}", server.url), "") };
        let models = vendor.list_models(&HttpClient::new().unwrap(), &config, Duration::from_secs(5)).await;
        (models, server.requests().concat().to_lowercase())
    }

    fn model(id: &str, context_window: Option<u64>) -> ListedModel {
        ListedModel { id: id.into(), context_window }
    }

    #[tokio::test]
    async fn each_vendor_is_asked_in_its_own_way() {
        let of_openai = r#"{"object":"list","data":[{"id":"a"},{"id":"b","context_length":9},{"object":"?"}]}"#;
        let of_anthropic = r#"{"data":[{"type":"model","id":"claude-a-20250929"}],"has_more":false}"#;
        let of_google = r#"{"models":[{"name":"models/embedding","supportedGenerationMethods":["embedContent"]},
            {"name":"models/gemini-a","inputTokenLimit":1048576,"supportedGenerationMethods":["generateContent"]}]}"#;
        let a_and_b = vec![model("a", None), model("b", Some(9))];
        for (vendor, base, body, begins, has, models) in [
            (
                Vendor::Openai,
                "/v1",
                of_openai,
                "get /v1/models http",
                "authorization: bearer sk-secret",
                a_and_b.clone(),
            ),
            (Vendor::Ollama, "/v1", of_openai, "get /v1/models http", "host: ", a_and_b),
            (
                Vendor::Anthropic,
                "",
                of_anthropic,
                "get /v1/models?limit=1000 http",
                "x-api-key: sk-secret",
                vec![model("claude-a-20250929", None)],
            ),
            (
                Vendor::Anthropic,
                "/v1/",
                of_anthropic,
                "get /v1/models?limit=1000 http",
                "anthropic-version: 2023-06-01",
                vec![model("claude-a-20250929", None)],
            ),
            (
                Vendor::Gemini,
                "/v1beta",
                of_google,
                "get /v1beta/models?pagesize=1000 http",
                "x-goog-api-key: sk-secret",
                vec![model("gemini-a", Some(1_048_576))],
            ),
            (
                Vendor::Vllm,
                "/v1",
                r#"{"data":[{"id":"q","max_model_len":4096}]}"#,
                "get",
                "",
                vec![model("q", Some(4_096))],
            ),
            (
                Vendor::Llamacpp,
                "/v1",
                r#"{"models":[{"name":"x"}],"data":[{"id":"y"}]}"#,
                "get",
                "",
                vec![model("y", None)],
            ),
            (Vendor::Lmstudio, "/v1", r#"{"data":null}"#, "get", "", vec![]),
        ] {
            let (listed, sent) = list(vendor, base, body).await;
            assert_eq!(listed.unwrap(), models, "{vendor:?}");
            assert!(sent.starts_with(begins) && sent.contains(has), "{vendor:?}: {sent}");
            assert_eq!(sent.contains("authorization"), vendor == Vendor::Openai, "{vendor:?}: {sent}");
        }
    }

    #[tokio::test]
    async fn what_is_no_list_is_an_error() {
        for body in ["", "<html>", "[]", r#"{"data":7}"#, r#"{"error":"no"}"#] {
            let (listed, _) = list(Vendor::Openai, "/v1", body).await;
            assert!(matches!(listed, Err(Fault::Other { .. })), "{body}: {listed:?}");
        }
        let odd = r#"{"data":[7,null,{"id":7},{"id":"a","context_length":-1},{"id":"b","context_length":0}]}"#;
        assert_eq!(list(Vendor::Openai, "", odd).await.0.unwrap(), [model("a", None), model("b", None)]);
    }

    #[test]
    fn a_preferred_model_may_have_a_date() {
        let offered = ["first", "claude-sonnet-4-5-thinking", "claude-sonnet-4-5-20250929", "gpt-5-mini-2025-08-07"];
        let offered = offered.map(|id| model(id, None));
        for (names, expected) in [
            (&["claude-sonnet-4-5"][..], "claude-sonnet-4-5-20250929"),
            (&["none", "gpt-5-mini"], "gpt-5-mini-2025-08-07"),
            (&["claude-sonnet-4-5-thinking"], "claude-sonnet-4-5-thinking"),
            (&["gpt-5"], "first"),
            (&[], "first"),
        ] {
            assert_eq!(preferred(&offered, names).unwrap().id, expected, "{names:?}");
        }
        assert_eq!(preferred(&[], &["a"]), None);
    }
}
