//! OpenAI's batches, for both of its APIs: a file with one request per line is uploaded, files with one result per line are
//! downloaded.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use super::options::ChatCompletions;
use crate::{
    adapter::ModelAdapter,
    batch::{self, BatchProtocol, BatchResultCollector, CreatedObject, HttpBatchEntry, HttpBatchOutcome},
    incoming_reply::ReplySource,
    wire::WireProtocol,
};
use shelly_core::{
    digest::Sha256Digest,
    error::{Fault, cut},
    limits,
    model::{BatchId, BatchState, CompletionRequest},
};
use shelly_net::{HttpRequest, fault_of_status};

/// An API of OpenAI. Its batches differ from those of the other one only in the endpoint and in the requests.
pub trait OpenAiApi: WireProtocol {
    /// OpenAI's name of the API that processes the requests, independent of the base URL.
    const ENDPOINT: &str;

    /// Builds the body of a request for a reply in one JSON document.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the request cannot be expressed in this API.
    fn unstreamed_body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault>;
}

impl OpenAiApi for ChatCompletions {
    const ENDPOINT: &str = "/v1/chat/completions";

    fn unstreamed_body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault> {
        adapter.completion_json(request, &self.request(adapter, request)?.whole(), &[])
    }
}

#[async_trait]
impl<W: OpenAiApi> BatchProtocol for W {
    fn whole_body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault> {
        self.unstreamed_body(adapter, request)
    }

    /// Uploads the requests and creates a batch of them.
    async fn submit(&self, adapter: &ModelAdapter, entries: &[HttpBatchEntry<'_>]) -> Result<BatchId, Fault> {
        let mut lines = Vec::new();
        for HttpBatchEntry { id, body } in entries {
            let line = OpenAiBatchEntry { custom_id: id, method: "POST", url: W::ENDPOINT, body };
            serde_json::to_writer(&mut lines, &line).map_err(batch::unwritable)?;
            lines.push(b'\n');
        }
        let (kind, form) = form(&lines);
        drop(lines);
        let file: CreatedObject = batch::make(adapter, adapter.url(&["files"])?, &kind, form).await?;
        let file = segment(&file.id)?;
        let new = json!({"input_file_id": file, "endpoint": W::ENDPOINT, "completion_window": "24h"});
        let json = serde_json::to_vec(&new).map_err(batch::unwritable)?;
        let made: Result<CreatedObject, _> =
            batch::make(adapter, adapter.url(&["batches"])?, "application/json", json).await;
        match made.and_then(|made| made.id.parse()) {
            Ok(batch) => Ok(batch),
            Err(fault) => {
                // If the batch was created after all, it has nothing to do without its file.
                delete(adapter, Some(file)).await;
                Err(fault)
            }
        }
    }

    async fn poll(&self, adapter: &ModelAdapter, batch: &BatchId) -> Result<BatchState, Fault> {
        let wire: OpenAiBatch = batch::state(adapter, adapter.url(&["batches", batch.as_str()])?).await?;
        if matches!(wire.status.as_str(), "completed" | "failed" | "expired" | "cancelled") {
            return Ok(BatchState::Ended);
        }
        let counts = wire.request_counts.unwrap_or_default();
        let done = counts.completed.unwrap_or(0).saturating_add(counts.failed.unwrap_or(0));
        Ok(BatchState::Working { done })
    }

    /// Reads the result files of a batch, and deletes its input file.
    async fn results(
        &self,
        adapter: &ModelAdapter,
        batch: &BatchId,
        results: &mut BatchResultCollector<'_, Self>,
    ) -> Result<(), Fault> {
        let wire: OpenAiBatch = batch::state(adapter, adapter.url(&["batches", batch.as_str()])?).await?;
        let files = [&wire.output_file_id, &wire.error_file_id];
        for file in files.into_iter().flatten().filter(|file| !file.is_empty()) {
            if !results.are_complete() {
                let url = adapter.url(&["files", segment(file)?, "content"])?;
                let reply = adapter.client().get(&batch::downloading(adapter, url)).await?;
                results.take_lines(reply.into_stream(), outcome).await?;
            }
        }
        delete(adapter, wire.input_file_id.as_deref()).await;
        // For a batch that was never started, this error is all there is.
        let refused = wire.errors.and_then(|errors| errors.data).and_then(|errors| errors.into_iter().next());
        match refused.filter(|_| wire.status == "failed") {
            Some(error) => Err(adapter.source().fault(error.get())),
            None => Ok(()),
        }
    }

    /// Asks the vendor to stop working on a batch, and deletes its input file.
    async fn cancel(&self, adapter: &ModelAdapter, batch: &BatchId) -> Result<(), Fault> {
        let reply = adapter.post(adapter.url(&["batches", batch.as_str(), "cancel"])?, vec![]).await?;
        // Read only for the id of the input file.
        if let Ok(OpenAiBatch { input_file_id, .. }) = adapter.read_json(reply).await {
            delete(adapter, input_file_id.as_deref()).await;
        }
        Ok(())
    }
}

/// Deletes a file if possible, so that conversations are not stored longer than necessary. A failure is only logged.
async fn delete(adapter: &ModelAdapter, file: Option<&str>) {
    let deletion = async {
        let Some(file) = file else { return Ok(()) };
        let url = adapter.url(&["files", segment(file)?])?;
        let request = HttpRequest { total: limits::BATCH_DELETE_TIME, ..batch::asking_once(adapter, url) };
        adapter.client().delete(&request).await.map(drop)
    };
    if let Err(fault) = deletion.await {
        tracing::debug!(%fault, "cannot delete the file of a batch");
    }
}

/// Returns the server's id of a file if it is safe as a path segment of an address.
fn segment(id: &str) -> Result<&str, Fault> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if (1..=limits::REPLY_WORD_BYTES).contains(&id.len()) && id.bytes().all(is_fine) && !matches!(id, "." | "..") {
        return Ok(id);
    }
    let shown = cut(id, limits::NAME_SHOWN_CHARS);
    Err(Fault::other(format!("the server returned an invalid file id `{}`", shown.escape_debug())))
}

/// Returns the content type and the bytes of a form that uploads a batch file. The boundary is the digest of the file, which
/// therefore cannot contain it.
fn form(file: &[u8]) -> (String, Vec<u8>) {
    let digest = Sha256Digest::of(file).hex();
    let purpose = "content-disposition: form-data; name=\"purpose\"\r\n\r\nbatch";
    let named = "content-disposition: form-data; name=\"file\"; filename=\"batch.jsonl\"";
    let head = format!("--{digest}\r\n{purpose}\r\n--{digest}\r\n{named}\r\ncontent-type: application/jsonl\r\n\r\n");
    let form = [head.as_bytes(), file, format!("\r\n--{digest}--\r\n").as_bytes()].concat();
    (format!("multipart/form-data; boundary={digest}"), form)
}

#[derive(Serialize)]
struct OpenAiBatchEntry<'a> {
    custom_id: &'a str,
    method: &'static str,
    url: &'a str,
    body: &'a RawValue,
}

#[derive(Deserialize)]
struct OpenAiBatch {
    status: String,
    request_counts: Option<OpenAiBatchCounts>,
    input_file_id: Option<String>,
    output_file_id: Option<String>,
    error_file_id: Option<String>,
    errors: Option<OpenAiBatchErrors>,
}

#[derive(Default, Deserialize)]
struct OpenAiBatchCounts {
    completed: Option<u64>,
    failed: Option<u64>,
}

#[derive(Deserialize)]
struct OpenAiBatchErrors {
    data: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize)]
struct OpenAiBatchLine<'a> {
    custom_id: String,
    #[serde(borrow)]
    response: Option<OpenAiBatchResponse<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OpenAiBatchResponse<'a> {
    status_code: u16,
    #[serde(borrow)]
    body: &'a RawValue,
}

fn outcome<'a>(source: &ReplySource<'_>, line: &'a [u8]) -> Result<HttpBatchOutcome<'a>, serde_json::Error> {
    let OpenAiBatchLine { custom_id: id, response, error } = serde_json::from_slice(line)?;
    let reply = match (response, error) {
        (Some(OpenAiBatchResponse { status_code: 200..=299, body }), _) => Ok(body),
        (Some(OpenAiBatchResponse { status_code, body }), _) => {
            Err(fault_of_status(source.origin, status_code, None, body.get(), source.secrets))
        }
        (None, error) => Err(batch::failure(source, error)),
    };
    Ok(HttpBatchOutcome { id, reply })
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
