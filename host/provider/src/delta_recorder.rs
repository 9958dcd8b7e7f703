//! Test support: records the deltas of a reply.

use std::sync::{Arc, Mutex};

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
