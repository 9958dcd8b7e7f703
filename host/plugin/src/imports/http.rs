//! The host's own interface for HTTP requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::time::timeout;
use wasmtime::component::Resource;

use crate::{
    bindings::{imports::http, types},
    convert,
    runtime::PluginState,
};
use shelly_core::{
    error::Fault,
    event::{Event, RunCx},
};
use shelly_net::egress::{
    CredentialUse, Egress, EgressFacts, EgressFailure, EgressRequest, EgressRequestBody, EgressResponse,
    EgressResponseBody, EgressUpload,
};

/// Sends requests on behalf of a plugin, and produces an event for each.
#[derive(Clone)]
pub struct PluginHttpClient {
    pub egress: Egress,
    pub cx: RunCx,
    pub plugin: Arc<str>,
    /// The longest silence in the middle of a response; `None` leaves it to the time limit of the call.
    pub idle: Option<Duration>,
    /// `true` if the last request was refused by a port of this machine on which nobody listens. Shared by clones.
    pub nobody_listens: Arc<AtomicBool>,
}

impl PluginHttpClient {
    /// Sends a request and waits for the head of the response, for at most `begins_within` if that is set.
    pub async fn send(
        &self,
        request: EgressRequest,
        begins_within: Option<Duration>,
    ) -> (Result<EgressResponse, Fault>, Event) {
        let mut untold = UnreportedRequest::new(self, self.egress.facts_of(&request));
        let sending = self.egress.send(EgressRequest { idle: self.idle, ..request });
        let sent = match begins_within {
            Some(time) => timeout(time, sending).await.unwrap_or_else(|_| {
                let message = "the response did not begin within the time that the plugin has set".into();
                Err(EgressFailure { fault: Fault::Timeout { message }, facts: Box::new(untold.facts.clone()) })
            }),
            None => sending.await,
        };
        untold.told(sent)
    }

    /// Returns the result for the plugin, and the event for listeners.
    fn told(
        &self,
        sent: Result<EgressResponse, EgressFailure>,
        duration: Duration,
    ) -> (Result<EgressResponse, Fault>, Event) {
        let event = match &sent {
            Ok(response) => self.event(&response.facts, None, duration),
            Err(failure) => self.event(&failure.facts, Some(&failure.fault), duration),
        };
        let nobody_listens = sent.as_ref().is_err_and(|failure| failure.facts.nobody_listens);
        self.nobody_listens.store(nobody_listens, Ordering::Relaxed);
        (sent.map_err(|failure| failure.fault), event)
    }

    fn event(&self, facts: &EgressFacts, fault: Option<&Fault>, duration: Duration) -> Event {
        let outcome = match fault {
            None => "answered",
            Some(Fault::Invalid { .. } | Fault::Denied { .. } | Fault::RateLimited { .. }) => "refused",
            Some(_) => "failed",
        };
        let reason = fault.map(|fault| match facts.address.filter(|_| outcome == "refused") {
            // The plugin must not learn the address that a name resolves to.
            Some(address) => format!("{fault} ({address})"),
            None => fault.to_string(),
        });
        Event::PluginRequest {
            agent: Arc::clone(&self.cx.agent),
            plugin: Arc::clone(&self.plugin),
            method: facts.method.clone(),
            url: facts.url.clone(),
            outcome,
            status: facts.status,
            reason,
            credential: facts.credential.clone(),
            hops: facts.hops,
            duration,
        }
    }
}

/// The body of a response, as the guest reads it.
pub struct GuestResponseBody {
    reply: EgressResponseBody,
    /// The bytes that were received and not read yet.
    rest: Bytes,
}

impl GuestResponseBody {
    /// Reads the next bytes, at most `max`; returns none at the end.
    async fn read(&mut self, max: usize) -> Result<Bytes, Fault> {
        while self.rest.is_empty() {
            match self.reply.chunk().await? {
                Some(chunk) => self.rest = chunk,
                None => break,
            }
        }
        Ok(self.rest.split_to(self.rest.len().min(max)))
    }
}

/// A request without an event so far. If it is dropped before there is an answer, because the call or the run ends, an
/// event is emitted nevertheless: the request may have been sent, and may have had an effect.
struct UnreportedRequest {
    asker: PluginHttpClient,
    began: Instant,
    facts: EgressFacts,
    is_told: bool,
}

impl UnreportedRequest {
    fn new(asker: &PluginHttpClient, facts: EgressFacts) -> Self {
        Self { asker: asker.clone(), began: Instant::now(), facts, is_told: false }
    }

    /// Returns the result for the plugin, and the event for listeners.
    fn told(&mut self, sent: Result<EgressResponse, EgressFailure>) -> (Result<EgressResponse, Fault>, Event) {
        self.is_told = true;
        self.asker.told(sent, self.began.elapsed())
    }

    /// Returns the event for a request that was abandoned.
    fn given_up(&mut self) -> Event {
        self.is_told = true;
        let why = Fault::other("the plugin did not wait for its end");
        self.asker.event(&self.facts, Some(&why), self.began.elapsed())
    }
}

impl Drop for UnreportedRequest {
    fn drop(&mut self) {
        if !self.is_told {
            let event = self.given_up();
            self.asker.cx.events.emit_now(event);
        }
    }
}

/// A request whose body the guest writes piece by piece.
pub struct GuestUpload {
    upload: EgressUpload,
    untold: UnreportedRequest,
}

type HostCallResult<T> = wasmtime::Result<Result<T, types::Error>>;

fn failed<T>(fault: &Fault) -> HostCallResult<T> {
    Ok(Err(convert::fault_to_wit(fault)))
}

impl PluginState {
    /// Returns the HTTP client of this call.
    ///
    /// # Errors
    ///
    /// [`Fault::Denied`] for calls that may send no requests.
    fn asker(&self) -> Result<PluginHttpClient, Fault> {
        let message = || "only tools and providers send requests".to_owned();
        self.asker.clone().ok_or_else(|| Fault::Denied { message: message() })
    }

    /// Converts a guest's request.
    fn asked(&mut self, request: http::Request, body: EgressRequestBody) -> wasmtime::Result<EgressRequest> {
        let http::Request { method, url, headers, credential, timeout_ms } = request;
        let of_headers: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.take(method.len() + url.len() + of_headers)?;
        Ok(EgressRequest {
            method,
            url,
            headers: headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect(),
            credential: credential.map_or(CredentialUse::None, CredentialUse::Named),
            follow: true,
            timeout: timeout_ms.map(|time| Duration::from_millis(time.into())),
            idle: None,
            body,
        })
    }

    /// Returns a response to the guest, and emits its event.
    async fn answered(
        &mut self,
        (sent, event): (Result<EgressResponse, Fault>, Event),
    ) -> HostCallResult<http::Response> {
        self.emit(event).await;
        let EgressResponse { status, headers, body: reply, .. } = match sent {
            Ok(response) => response,
            Err(fault) => return failed(&fault),
        };
        let headers: Vec<_> =
            headers.into_iter().map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned())).collect();
        self.hand(headers.iter().map(|(name, value)| name.len() + value.len()).sum())?;
        let body = self.table.push(GuestResponseBody { reply, rest: Bytes::new() })?;
        Ok(Ok(http::Response { status, headers, body }))
    }
}

impl http::Host for PluginState {
    async fn send(&mut self, request: http::Request, body: Vec<u8>) -> HostCallResult<http::Response> {
        let request = self.asked(request, EgressRequestBody::Bytes(body.into()))?;
        match self.asker() {
            Ok(asker) => self.answered(asker.send(request, None).await).await,
            Err(fault) => failed(&fault),
        }
    }

    async fn begin(&mut self, request: http::Request) -> HostCallResult<Resource<GuestUpload>> {
        let request = self.asked(request, EgressRequestBody::default())?;
        let asker = match self.asker() {
            Ok(asker) => asker,
            Err(fault) => return failed(&fault),
        };
        let began = Instant::now();
        match asker.egress.begin(EgressRequest { idle: asker.idle, ..request }) {
            Ok(upload) => {
                let untold = UnreportedRequest::new(&asker, upload.facts().clone());
                Ok(Ok(self.table.push(GuestUpload { upload, untold })?))
            }
            Err(failure) => {
                let (sent, event) = asker.told(Err(failure), began.elapsed());
                self.emit(event).await;
                match sent {
                    Err(fault) => failed(&fault),
                    Ok(_) => failed(&Fault::other("a request that failed has no answer")),
                }
            }
        }
    }

    async fn credentials(&mut self) -> wasmtime::Result<Vec<String>> {
        let names: Vec<_> = self.asker.iter().flat_map(|asker| asker.egress.credentials()).map(str::to_owned).collect();
        self.hand(names.iter().map(String::len).sum())?;
        Ok(names)
    }
}

impl http::HostBody for PluginState {
    async fn read(&mut self, body: Resource<GuestResponseBody>, max: u32) -> HostCallResult<Vec<u8>> {
        if max == 0 {
            return failed(&Fault::invalid("`max` is 0: ask for one byte at least"));
        }
        let read = self.table.get_mut(&body)?.read(max as usize).await;
        Ok(read.map(Into::into).map_err(|fault| convert::fault_to_wit(&fault)))
    }

    async fn drop(&mut self, body: Resource<GuestResponseBody>) -> wasmtime::Result<()> {
        self.table.delete(body)?;
        Ok(())
    }
}

impl http::HostUpload for PluginState {
    async fn write(&mut self, upload: Resource<GuestUpload>, chunk: Vec<u8>) -> HostCallResult<()> {
        let written = self.table.get_mut(&upload)?.upload.write(chunk.into()).await;
        Ok(written.map_err(|fault| convert::fault_to_wit(&fault)))
    }

    async fn finish(&mut self, upload: Resource<GuestUpload>) -> HostCallResult<http::Response> {
        let GuestUpload { upload, mut untold } = self.table.delete(upload)?;
        let sent = upload.finish().await;
        self.answered(untold.told(sent)).await
    }

    async fn drop(&mut self, upload: Resource<GuestUpload>) -> wasmtime::Result<()> {
        let GuestUpload { upload, mut untold } = self.table.delete(upload)?;
        untold.facts.clone_from(upload.facts());
        drop(upload);
        let event = untold.given_up();
        self.emit(event).await;
        Ok(())
    }
}
