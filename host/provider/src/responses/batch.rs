//! The batches of the Responses API, which differ from those of Chat Completions only in the endpoint.

use super::ResponsesApi;
use crate::{adapter::ModelAdapter, openai::batch::OpenAiApi};
use shelly_core::{error::Fault, model::CompletionRequest};

impl OpenAiApi for ResponsesApi {
    const ENDPOINT: &str = "/v1/responses";

    fn unstreamed_body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault> {
        adapter.completion_json(request, &self.request(adapter, request)?.whole(), &[super::request::TEXT])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::batch::testing::{entries, id, requests, sent, served, texts};
    use shelly_core::model::BatchSubmitter;
    use shelly_net::{AuthHeader, Secret};
    use shelly_test_support::answer;

    #[tokio::test]
    async fn requests_and_results_are_those_of_this_api() {
        let output = json!([{"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}]);
        let body = json!({"id": "resp_1", "status": "completed", "model": "m-1", "output": output});
        let line = json!({"custom_id": "a", "response": {"status_code": 200, "body": body}, "error": null});
        let batch = json!({"id": "batch_1", "status": "completed", "output_file_id": "file-2"}).to_string();
        let fine = |body: &str| answer("200 OK", "", body);
        let answers = vec![fine(r#"{"id": "file-1"}"#), fine(&batch), fine(&batch), fine(&line.to_string())];
        let auth = AuthHeader::bearer(Secret::new("sk-secret"));
        let (server, batches) = served(answers, "/v1", auth, ResponsesApi::default()).await;
        let wanted = requests(&["a"]);
        assert_eq!(batches.submit(&wanted).await.unwrap(), id("batch_1"));
        assert_eq!(texts(&batches.results(&id("batch_1"), &wanted).await.unwrap()), [("a", "Hi".into())]);

        let entries = entries(&sent(&server, 0).1);
        assert_eq!(entries.len(), 1);
        assert_eq!((&entries[0]["url"], &entries[0]["method"]), (&json!("/v1/responses"), &json!("POST")));
        let body = &entries[0]["body"];
        assert_eq!((body.get("stream"), &body["store"], &body["model"]), (None, &json!(false), &json!("m-1")));
        let made: Value = serde_json::from_str(&sent(&server, 1).1).unwrap();
        assert_eq!(made["endpoint"], "/v1/responses");
    }
}
