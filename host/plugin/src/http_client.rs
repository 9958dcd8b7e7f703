//! The HTTP client of a plugin's calls: it sends requests through the plugin's egress and reports each as an event.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::time::timeout;

use shelly_core::{
    error::Fault,
    event::{Event, PluginRequestOutcome, RunCx},
};
use shelly_net::egress::{
    Egress, EgressFacts, EgressFailure, EgressRequest, EgressResponse, EgressResponseBody, EgressUpload,
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
        let mut unreported = UnreportedRequest::new(self, self.egress.facts_of(&request));
        let sending = self.egress.send(self.of_step(request));
        let sent = match begins_within {
            Some(time) => timeout(time, sending).await.unwrap_or_else(|_| {
                let message = "the response did not begin within the time that the plugin set".into();
                Err(EgressFailure { fault: Fault::Timeout { message }, facts: Box::new(unreported.facts.clone()) })
            }),
            None => sending.await,
        };
        unreported.report(sent)
    }

    /// Begins a request whose body the guest writes piece by piece. Returns the result for the plugin, and the event for
    /// listeners if the request ended at once.
    pub fn begin(&self, request: EgressRequest) -> (Result<GuestUpload, Fault>, Option<Event>) {
        let began = Instant::now();
        match self.egress.begin(self.of_step(request)) {
            Ok(upload) => {
                let request = UnreportedRequest::new(self, upload.facts().clone());
                (Ok(GuestUpload { upload, request }), None)
            }
            Err(failure) => {
                let event = self.report(Err(&failure), began.elapsed());
                (Err(failure.fault), Some(event))
            }
        }
    }

    /// Returns a request of the guest as one of the step that the guest works on.
    fn of_step(&self, request: EgressRequest) -> EgressRequest {
        EgressRequest { idle: self.idle, span: self.cx.events.step_span(), ..request }
    }

    /// Returns the event for listeners, and records whether anybody listens at the address.
    fn report(&self, sent: Result<&EgressResponse, &EgressFailure>, duration: Duration) -> Event {
        self.nobody_listens.store(sent.is_err_and(|failure| failure.facts.nobody_listens), Ordering::Relaxed);
        match sent {
            Ok(response) => self.event(&response.facts, None, duration),
            Err(failure) => self.event(&failure.facts, Some(&failure.fault), duration),
        }
    }

    fn event(&self, facts: &EgressFacts, fault: Option<&Fault>, duration: Duration) -> Event {
        let outcome = match fault {
            None => PluginRequestOutcome::Answered,
            Some(Fault::Invalid { .. } | Fault::Denied { .. } | Fault::RateLimited { .. }) => {
                PluginRequestOutcome::Refused
            }
            Some(_) => PluginRequestOutcome::Failed,
        };
        let reason = fault.map(|fault| match facts.address.filter(|_| outcome == PluginRequestOutcome::Refused) {
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
    pub fn new(reply: EgressResponseBody) -> Self {
        Self { reply, rest: Bytes::new() }
    }

    /// Reads the next bytes, at most `max`; returns none at the end.
    pub async fn read(&mut self, max: usize) -> Result<Bytes, Fault> {
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
    client: PluginHttpClient,
    began: Instant,
    facts: EgressFacts,
    is_reported: bool,
}

impl UnreportedRequest {
    fn new(client: &PluginHttpClient, facts: EgressFacts) -> Self {
        Self { client: client.clone(), began: Instant::now(), facts, is_reported: false }
    }

    /// Returns the result for the plugin, and the event for listeners.
    fn report(&mut self, sent: Result<EgressResponse, EgressFailure>) -> (Result<EgressResponse, Fault>, Event) {
        self.is_reported = true;
        let event = self.client.report(sent.as_ref(), self.began.elapsed());
        (sent.map_err(|failure| failure.fault), event)
    }

    /// Returns the event for a request that was abandoned.
    fn abandon(&mut self) -> Event {
        self.is_reported = true;
        let why = Fault::other("the plugin abandoned the request");
        self.client.event(&self.facts, Some(&why), self.began.elapsed())
    }
}

impl Drop for UnreportedRequest {
    fn drop(&mut self) {
        if !self.is_reported {
            let event = self.abandon();
            self.client.cx.events.emit_now(event);
        }
    }
}

/// A request whose body the guest writes piece by piece.
pub struct GuestUpload {
    upload: EgressUpload,
    request: UnreportedRequest,
}

impl GuestUpload {
    /// Sends the next piece of the body.
    pub async fn write(&mut self, chunk: Bytes) -> Result<(), Fault> {
        self.upload.write(chunk).await
    }

    /// Ends the body and waits for the head of the response.
    pub async fn finish(self) -> (Result<EgressResponse, Fault>, Event) {
        let Self { upload, mut request } = self;
        let sent = upload.finish().await;
        request.report(sent)
    }

    /// Ends the request without its response, and returns the event for listeners.
    pub fn abandon(self) -> Event {
        let Self { upload, mut request } = self;
        request.facts.clone_from(upload.facts());
        drop(upload);
        request.abandon()
    }
}
