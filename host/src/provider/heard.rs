//! For tests: what is heard of a reply that comes in pieces.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};

use super::{Incoming, Names, Source, Wire};
use crate::{
    error::Fault,
    model::{Completion, Delta, DeltaSink, DeltaTarget},
    net::Secret,
};

#[derive(Default)]
struct Seen(Mutex<Vec<Delta>>);

#[async_trait]
impl DeltaTarget for Seen {
    async fn take(&self, delta: Delta) {
        self.0.lock().unwrap().push(delta);
    }
}

/// What a reply becomes over this wire, and the pieces of it that whoever watches has seen. The server is `host`, the model that
/// was asked `asked`, the key `sk-secret`.
pub async fn heard(
    wire: &impl Wire,
    names: &Names,
    pieces: Vec<Result<Vec<u8>, Fault>>,
) -> (Result<Completion, Fault>, Vec<Delta>) {
    let seen = Arc::new(Seen::default());
    let key = Secret::new("sk-secret");
    let source = Source { origin: "host", model: "asked", secrets: std::slice::from_ref(&key) };
    let sink = DeltaSink::new(seen.clone());
    let completion = match Incoming::of(stream::iter(pieces).boxed(), &source).await {
        Ok(reply) => wire.read(reply, &source, names, &sink).await,
        Err(fault) => Err(fault),
    };
    let deltas = std::mem::take(&mut *seen.0.lock().unwrap());
    (completion, deltas)
}
