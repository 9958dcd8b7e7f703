//! Test support: records the deltas of a reply.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};

use super::{IncomingReply, ReplySource, ToolNames, WireProtocol};
use shelly_core::{
    error::Fault,
    model::{Completion, DeltaSink, DeltaTarget, ReplyDelta},
};
use shelly_net::Secret;

#[derive(Default)]
struct DeltaRecorder(Mutex<Vec<ReplyDelta>>);

#[async_trait]
impl DeltaTarget for DeltaRecorder {
    async fn take(&self, delta: ReplyDelta) {
        self.0.lock().unwrap().push(delta);
    }
}

/// Reads a reply over this wire protocol and returns the completion and its deltas. The server is `host`, the requested
/// model `asked`, the key `sk-secret`.
pub async fn heard(
    wire: &impl WireProtocol,
    names: &ToolNames,
    pieces: Vec<Result<Vec<u8>, Fault>>,
) -> (Result<Completion, Fault>, Vec<ReplyDelta>) {
    let seen = Arc::new(DeltaRecorder::default());
    let key = Secret::new("sk-secret");
    let source = ReplySource { origin: "host", model: "asked", secrets: std::slice::from_ref(&key) };
    let sink = DeltaSink::new(seen.clone());
    let completion = match IncomingReply::of(stream::iter(pieces).boxed(), &source).await {
        Ok(reply) => wire.read(reply, &source, names, &sink).await,
        Err(fault) => Err(fault),
    };
    let deltas = std::mem::take(&mut *seen.0.lock().unwrap());
    (completion, deltas)
}

/// Asserts that `read` gets the same from a reply wherever its stream is split.
pub async fn assert_splits_do_not_matter<R: PartialEq + Debug>(stream: &str, read: impl AsyncFn(Vec<Vec<u8>>) -> R) {
    let whole = read(vec![stream.into()]).await;
    for at in 0..stream.len() {
        let (a, b) = stream.as_bytes().split_at(at);
        assert_eq!(read(vec![a.into(), b.into()]).await, whole, "split at {at}");
    }
    assert_eq!(read(stream.bytes().map(|byte| vec![byte]).collect()).await, whole);
}
