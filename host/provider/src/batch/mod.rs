//! Batches over HTTP: requests that are submitted together, and whose replies are fetched once the batch has ended.

mod lines;
mod results;
#[cfg(test)]
pub(super) mod testing;

use async_trait::async_trait;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use url::Url;

pub use results::{BatchResultCollector, HttpBatchOutcome};

use super::{
    adapter::{AdapterConfig, ModelAdapter},
    incoming_reply::ReplySource,
    wire::WireProtocol,
};
use shelly_core::{
    error::Fault,
    limits,
    model::{BatchId, BatchResults, BatchState, BatchSubmitter, CompletionRequest},
};
use shelly_net::{HttpClient, HttpRequest, Retries};

/// The batch API of one vendor: the parts in which it differs from the others.
#[async_trait]
pub trait BatchProtocol: WireProtocol + Sized {
    /// The maximum size in bytes of all requests of a batch together.
    const BYTES: usize = limits::BATCH_BYTES;

    /// Builds the body of a request for a reply in one JSON document.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the request cannot be expressed in this API.
    fn whole_body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault>;

    /// Submits requests as a batch.
    ///
    /// # Errors
    ///
    /// The errors of [`BatchSubmitter::submit`].
    async fn submit(&self, adapter: &ModelAdapter, entries: &[HttpBatchEntry<'_>]) -> Result<BatchId, Fault>;

    /// Returns the state of a batch.
    ///
    /// # Errors
    ///
    /// The errors of [`BatchSubmitter::poll`].
    async fn poll(&self, adapter: &ModelAdapter, batch: &BatchId) -> Result<BatchState, Fault>;

    /// Collects the available results into `results`.
    ///
    /// # Errors
    ///
    /// The errors of [`BatchSubmitter::results`].
    async fn results(
        &self,
        adapter: &ModelAdapter,
        batch: &BatchId,
        results: &mut BatchResultCollector<'_, Self>,
    ) -> Result<(), Fault>;

    /// Asks the vendor to stop working on a batch.
    ///
    /// # Errors
    ///
    /// The errors of [`BatchSubmitter::cancel`].
    async fn cancel(&self, adapter: &ModelAdapter, batch: &BatchId) -> Result<(), Fault>;
}

/// A request in the form that a batch needs.
pub struct HttpBatchEntry<'a> {
    /// The id that the result must carry.
    pub id: &'a str,
    /// The body of [`BatchProtocol::whole_body`], without line breaks.
    pub body: Box<RawValue>,
}

/// The batches of a model behind an HTTP API.
///
/// - A batch is submitted with the [`Retries`] of the config, but sent again only after a definite refusal: otherwise it
///   might be created, and paid for, twice. Each poll and each fetch of results sends one request.
/// - No address from the server is followed; only the ids of batches and files that it returns are used.
/// - A result is skipped if it has more than [`limits::REPLY_BYTES`], cannot be parsed, belongs to no request or is a
///   duplicate, or if it comes after [`limits::BATCH_RESULTS_BYTES`]. The other results are kept, because they have been
///   paid for.
pub struct HttpBatches<W> {
    adapter: ModelAdapter,
    wire: W,
}

impl<W: BatchProtocol> HttpBatches<W> {
    /// Creates the batches of a model; sends nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`ModelAdapter::new`].
    pub fn new(client: HttpClient, mut config: AdapterConfig, wire: W) -> Result<Self, Fault> {
        config.add_headers(wire.headers());
        Ok(Self { adapter: ModelAdapter::new(client, config)?, wire })
    }

    fn entries<'a>(&self, requests: &'a [(String, CompletionRequest)]) -> Result<Vec<HttpBatchEntry<'a>>, Fault> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for (id, request) in requests {
            let mut body = self.wire.whole_body(&self.adapter, request)?;
            bytes += body.len();
            if bytes > W::BYTES {
                return Err(Fault::TooLarge { message: format!("the batch has more than {} bytes", W::BYTES) });
            }
            // Schemas are sent as they were written. Outside of strings, JSON allows a space in place of a line break;
            // inside of strings there are none.
            body.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
            let unwritable = |_| Fault::invalid("the request cannot be written as JSON");
            let body = String::from_utf8(body).map_err(|_| Fault::invalid("the request is not UTF-8"))?;
            entries.push(HttpBatchEntry { id, body: RawValue::from_string(body).map_err(unwritable)? });
        }
        Ok(entries)
    }
}

#[async_trait]
impl<W: BatchProtocol> BatchSubmitter for HttpBatches<W> {
    async fn submit(&self, requests: &[(String, CompletionRequest)]) -> Result<BatchId, Fault> {
        let entries = self.entries(requests)?;
        self.wire.submit(&self.adapter, &entries).await
    }

    async fn poll(&self, batch: &BatchId) -> Result<BatchState, Fault> {
        self.wire.poll(&self.adapter, batch).await
    }

    async fn results(&self, batch: &BatchId, requests: &[(String, CompletionRequest)]) -> Result<BatchResults, Fault> {
        let mut results = BatchResultCollector::new(&self.wire, &self.adapter, requests);
        self.wire.results(&self.adapter, batch, &mut results).await?;
        Ok(results.found())
    }

    async fn cancel(&self, batch: &BatchId) -> Result<(), Fault> {
        self.wire.cancel(&self.adapter, batch).await
    }
}

/// An object that a server has created.
#[derive(Deserialize)]
pub struct CreatedObject {
    /// The server's id of it.
    pub id: String,
}

/// Returns the fault for a batch that cannot be written.
pub fn unwritable(error: serde_json::Error) -> Fault {
    Fault::invalid(format!("the batch cannot be written as JSON: {error}"))
}

/// Returns the fault of a request that has no reply: the error that the server reports for it, if there is one.
pub fn failure(source: &ReplySource<'_>, error: Option<&RawValue>) -> Fault {
    match error {
        Some(error) => source.fault(error.get()),
        None => source.unavailable("has neither a reply nor an error for a request in a batch"),
    }
}

/// Sends a request that creates something, at most once as far as can be known, and parses the JSON of the response.
///
/// # Errors
///
/// The fault that the server's response stands for, or the reason why there is no response.
pub async fn make<T: DeserializeOwned>(
    adapter: &ModelAdapter,
    url: Url,
    kind: &str,
    bytes: Vec<u8>,
) -> Result<T, Fault> {
    let request = HttpRequest { repeatable: false, ..adapter.request(url) };
    adapter.read_json(adapter.client().upload(&request, kind, bytes).await?).await
}

/// Returns a request that is sent once, within [`limits::BATCH_POLL_TIME`].
pub fn asking_once(adapter: &ModelAdapter, url: Url) -> HttpRequest {
    HttpRequest { retries: Retries::NONE, total: limits::BATCH_POLL_TIME, ..adapter.request(url) }
}

/// Returns a request that is sent once, within the time limit of a reply, because the response may be long.
pub fn downloading(adapter: &ModelAdapter, url: Url) -> HttpRequest {
    HttpRequest { retries: Retries::NONE, ..adapter.request(url) }
}

/// Requests the JSON state of an object once.
///
/// # Errors
///
/// The fault that the server's response stands for, or the reason why there is no response.
pub async fn state<T: DeserializeOwned>(adapter: &ModelAdapter, url: Url) -> Result<T, Fault> {
    adapter.read_json(adapter.client().get(&asking_once(adapter, url)).await?).await
}
