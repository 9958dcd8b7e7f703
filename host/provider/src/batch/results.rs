//! The results of a batch, collected as they are read.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{
    super::{
        adapter::ModelAdapter,
        incoming_reply::{IncomingReply, ReplySource},
        wire::{WireProtocol, names},
    },
    lines::{BatchLine, BatchLineReader},
};
use shelly_core::{
    error::Fault,
    limits,
    model::{BatchResults, CompletionRequest, DeltaSink},
};
use shelly_net::ByteStream;

/// The outcome that a server reports for a request.
pub struct HttpBatchOutcome<'a> {
    /// The id that the request was given.
    pub id: String,
    /// The reply as one JSON document in the vendor's format, or the reason why there is none.
    pub reply: Result<&'a RawValue, Fault>,
}

/// Parses an [`HttpBatchOutcome`] from a line.
pub type BatchOutcomeParser = for<'a> fn(&ReplySource<'_>, &'a [u8]) -> Result<HttpBatchOutcome<'a>, serde_json::Error>;

/// The results that were found, and the requests that still have none.
pub struct BatchResultCollector<'a, W> {
    wire: &'a W,
    adapter: &'a ModelAdapter,
    requests: &'a [(String, CompletionRequest)],
    wanted: HashMap<&'a str, &'a CompletionRequest>,
    found: BatchResults,
    /// The number of bytes read.
    read: usize,
}

impl<'a, W: WireProtocol> BatchResultCollector<'a, W> {
    /// Creates a collector without any results.
    pub fn new(wire: &'a W, adapter: &'a ModelAdapter, requests: &'a [(String, CompletionRequest)]) -> Self {
        let wanted = requests.iter().map(|(id, request)| (id.as_str(), request)).collect();
        Self { wire, adapter, requests, wanted, found: Vec::new(), read: 0 }
    }

    /// Returns the ids of all requests, in their order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = &'a str> {
        self.requests.iter().map(|(id, _)| id.as_str())
    }

    /// Returns `true` if every request has its result.
    pub fn are_complete(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns the results that were found.
    pub fn found(self) -> BatchResults {
        self.found
    }

    /// Adds a result. Skips one that belongs to no request, or a duplicate.
    pub async fn take(&mut self, HttpBatchOutcome { id, reply }: HttpBatchOutcome<'_>) {
        let Some(request) = self.wanted.remove(id.as_str()) else {
            tracing::debug!(id = %self.adapter.source().word(&id), "a batch has a result without a waiting request");
            return;
        };
        let result = match reply {
            Ok(json) => {
                let reply = IncomingReply::Json(json.get().as_bytes().to_vec());
                self.wire.read(reply, &self.adapter.source(), &names::<W>(request), &DeltaSink::none()).await
            }
            Err(fault) => Err(fault),
        };
        self.found.push((id, result));
    }

    /// Adds all results of a stream with one result per line.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] if the stream is cut off, and the fault with which it fails.
    pub async fn take_lines(&mut self, stream: ByteStream, read: BatchOutcomeParser) -> Result<(), Fault> {
        let source = self.adapter.source();
        let mut lines = BatchLineReader::new(stream, limits::REPLY_BYTES);
        let most = limits::BATCH_RESULTS_BYTES.saturating_sub(self.read);
        while !self.are_complete() {
            let Some(line) = lines.next(most).await? else { break };
            match line {
                BatchLine::Whole(line) => match read(&source, &line) {
                    Ok(outcome) => self.take(outcome).await,
                    Err(error) => tracing::warn!(fault = %source.garbled(&error), "a result of a batch is left out"),
                },
                BatchLine::Last(line) => match read(&source, &line) {
                    Ok(outcome) => self.take(outcome).await,
                    Err(_) => return Err(source.unavailable("ended its reply early")),
                },
                BatchLine::TooLong => {
                    tracing::warn!("a result of a batch has more than {} bytes and is left out", limits::REPLY_BYTES);
                }
            }
        }
        self.read = self.read.saturating_add(lines.read());
        if self.read > limits::BATCH_RESULTS_BYTES {
            tracing::warn!("the results of a batch have more than {} bytes", limits::BATCH_RESULTS_BYTES);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;
    use crate::{AdapterConfig, ChatCompletions, batch::testing::requests};
    use shelly_net::HttpClient;

    #[tokio::test]
    async fn results_are_read_up_to_a_bound() {
        const CHUNK: usize = 8 << 20;
        let adapter = AdapterConfig::new("https://host/v1", "m-1");
        let adapter = ModelAdapter::new(HttpClient::new().unwrap(), adapter).unwrap();
        let (wire, wanted) = (ChatCompletions::default(), requests(&["a"]));
        let mut results = BatchResultCollector::new(&wire, &adapter, &wanted);
        let endless = || stream::repeat_with(|| Ok(vec![b' '; CHUNK])).boxed();
        let nothing: BatchOutcomeParser = |_, line| panic!("a line of {} bytes", line.len());
        results.take_lines(endless(), nothing).await.unwrap();
        assert_eq!(results.read, limits::BATCH_RESULTS_BYTES + CHUNK);
        // The bytes of earlier streams count.
        results.take_lines(endless(), nothing).await.unwrap();
        assert_eq!(results.read, limits::BATCH_RESULTS_BYTES + 2 * CHUNK);
        assert!(!results.are_complete());
    }
}
