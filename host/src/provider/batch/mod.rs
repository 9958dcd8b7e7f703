//! Batches over HTTP: requests that are handed over together, and whose replies are fetched once there are no more to come.

mod lines;
mod results;
#[cfg(test)]
pub(super) mod testing;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use url::Url;

pub use results::{BatchResultCollector, HttpBatchOutcome};

use super::{
    adapter::{AdapterConfig, ModelAdapter},
    wire::WireProtocol,
};
use crate::{
    error::Fault,
    limits,
    model::{BatchId, BatchResults, BatchState, BatchSubmitter, CompletionRequest},
    net::{HttpClient, HttpRequest, Retries},
};

/// What a vendor's batches are like, as far as they differ from the others.
#[async_trait]
pub trait BatchProtocol: WireProtocol + Sized {
    /// Bytes of all requests of a batch together.
    const BYTES: usize = limits::BATCH_BYTES;

    /// A request for a reply in one piece, JSON.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the request cannot be said in this API.
    fn whole_body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault>;

    /// Hands requests over.
    ///
    /// # Errors
    ///
    /// Those of [`BatchSubmitter::submit`].
    async fn submit(&self, adapter: &ModelAdapter, entries: &[HttpBatchEntry<'_>]) -> Result<BatchId, Fault>;

    /// How far a batch is.
    ///
    /// # Errors
    ///
    /// Those of [`BatchSubmitter::poll`].
    async fn poll(&self, adapter: &ModelAdapter, batch: &BatchId) -> Result<BatchState, Fault>;

    /// Puts into `results` what there is.
    ///
    /// # Errors
    ///
    /// Those of [`BatchSubmitter::results`].
    async fn results(
        &self,
        adapter: &ModelAdapter,
        batch: &BatchId,
        results: &mut BatchResultCollector<'_, Self>,
    ) -> Result<(), Fault>;

    /// Asks for no further work.
    ///
    /// # Errors
    ///
    /// Those of [`BatchSubmitter::cancel`].
    async fn cancel(&self, adapter: &ModelAdapter, batch: &BatchId) -> Result<(), Fault>;
}

/// A request as it goes into a batch.
pub struct HttpBatchEntry<'a> {
    /// The id that its result must bear.
    pub id: &'a str,
    /// [`BatchProtocol::whole_body`], without line breaks.
    pub body: Box<RawValue>,
}

/// The batches of a model behind an HTTP API.
///
/// - A batch is handed over with the [`Retries`] of the config, but sent again only where it was refused for sure: else it
///   might be made, and paid for, twice. How far it is and what became of it is asked once a call.
/// - No address that the server gives is asked, only what it says is the id of a batch or a file.
/// - A result that has more than [`limits::REPLY_BYTES`], cannot be read, belongs to nobody or comes a second time is left
///   out, as is what comes after [`limits::BATCH_RESULTS_BYTES`]: the others have been paid for.
pub struct HttpBatches<W> {
    adapter: ModelAdapter,
    wire: W,
}

impl<W: BatchProtocol> HttpBatches<W> {
    /// The batches of a model; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Those of [`ModelAdapter::new`].
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
            // Schemas are sent as they were written. Outside of its strings JSON takes a space for any line break, and
            // inside of them there is none.
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

/// Sends what makes something, at most once as far as can be told, and reads the JSON that comes back.
///
/// # Errors
///
/// What the server's answer means, or why there is none.
pub async fn make<T: DeserializeOwned>(
    adapter: &ModelAdapter,
    url: Url,
    kind: &str,
    bytes: Vec<u8>,
) -> Result<T, Fault> {
    let request = HttpRequest { repeatable: false, ..adapter.request(url) };
    adapter.read_json(adapter.client().upload(&request, kind, bytes).await?).await
}

/// A request that is sent once, within [`limits::BATCH_POLL_TIME`].
pub fn asking_once(adapter: &ModelAdapter, url: Url) -> HttpRequest {
    HttpRequest { retries: Retries::NONE, total: limits::BATCH_POLL_TIME, ..adapter.request(url) }
}

/// A request that is sent once, within the time of a reply: what comes may be long.
pub fn downloading(adapter: &ModelAdapter, url: Url) -> HttpRequest {
    HttpRequest { retries: Retries::NONE, ..adapter.request(url) }
}

/// Asks once for JSON that says how something stands.
///
/// # Errors
///
/// What the server's answer means, or why there is none.
pub async fn state<T: DeserializeOwned>(adapter: &ModelAdapter, url: Url) -> Result<T, Fault> {
    adapter.read_json(adapter.client().get(&asking_once(adapter, url)).await?).await
}
