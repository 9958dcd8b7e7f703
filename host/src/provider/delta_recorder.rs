//! For tests: what is heard of a reply that comes in pieces.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};

use super::{IncomingReply, ReplySource, ToolNames, WireProtocol};
use crate::{
    error::Fault,
    model::{Completion, DeltaSink, DeltaTarget, ReplyDelta},
    net::Secret,
};

#[derive(Default)]
struct DeltaRecorder(Mutex<Vec<ReplyDelta>>);

#[async_trait]
impl DeltaTarget for DeltaRecorder {
    async fn take(&self, delta: ReplyDelta) {
        self.0.lock().unwrap().push(delta);
    }
}

/// What a reply becomes over this wire, and the pieces of it that whoever watches has seen. The server is `host`, the model that
/// was asked `asked`, the key `sk-secret`.
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
